package projection

import (
	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/panics"
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
	for i, e := range events {
		all[i].Event = e
		if err := panics.Contain("decode event", e.ID, func() (err error) {
			all[i].Value, err = s.Codec.Decode(e.Payload)
			return err
		}); err != nil {
			return nil, &failure{i, err}
		}
	}
	return all, nil
}
