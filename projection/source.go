package projection

import (
	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
)

// Source says which events a projection follows, and what they are.
type Source[E any] struct {
	Store annals.Store
	Type  string // of entities; "" = any
	Tag   string // "" = any
	Codec codec.Codec[E]
	// States makes the projection follow the durable states in place of the events: a handler gets each entity's newest state after it has
	// changed. Of an entity that changes several times before it is handled, the handler may get the newest state only. What is said of events
	// in this package holds for these states, and SeqNr is the revision.
	States bool
}

// Envelope is an event with its value: ID, SeqNr, Time, Tags and Metadata say where it comes from.
type Envelope[E any] struct {
	annals.Event
	Value   E
	Deleted bool // with Source.States: the state was deleted, and Value is the zero E
	// Rebuilding says that the event had its effect before: this projection had handled it, or left it out by Skip, Discard or Options.From, before
	// Control.Reset took it back; or Rebuild makes a new read model, and the old projection has handled it. A handler that also tells others, as by a mail, tells
	// them nothing then. An event that waited because its entity was parked had not been handled. What the position said counts: so it is false
	// where the handler had returned, but a crash came before the save. It can be true for an event that becomes visible later than its store
	// promises, between the Reset and the time when the projection comes to it.
	Rebuilding bool
}

func (s Source[E]) stream() stream {
	return stream{s.Store, source{Type: s.Type, Tag: s.Tag, States: s.States}}
}
