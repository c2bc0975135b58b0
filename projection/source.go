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
}

// Envelope is an event with its value: ID, SeqNr, Time, Tags and Metadata say where it comes from.
type Envelope[E any] struct {
	annals.Event
	Value E
}

// decode returns the envelopes of events. Its error is a *failure.
func (s Source[E]) decode(events []annals.Event) ([]Envelope[E], error) {
	all := make([]Envelope[E], len(events))
	err := containEach("decode event", events, func(e annals.Event) annals.PersistenceID { return e.ID }, func(i int) (err error) {
		all[i].Event = events[i]
		all[i].Value, err = s.Codec.Decode(events[i].Payload)
		return err
	})
	return all, err
}
