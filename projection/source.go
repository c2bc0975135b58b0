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
}

func (s Source[E]) stream() stream {
	return stream{s.Store, source{Type: s.Type, Tag: s.Tag, States: s.States}}
}
