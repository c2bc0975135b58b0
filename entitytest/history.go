package entitytest

import (
	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/internal/host"
)

// History is what a store has of an entity. The command test of the module operate writes it.
type History struct {
	Snapshot *annals.Snapshot // the state before Events; nil: there is none
	// Events have payloads as they are stored, with the number, the time and the metadata of each. Of a durable state, the one event is its newest revision.
	Events []annals.Event
	State  annals.Payload // the state after Events, as a store may have it; zero: it is not compared
}

// Stored has the entity be read from h: its payloads are decoded by the behavior's codecs. It demands the State of h: the state is equal to it, or stored as
// the same bytes. What follows has the time and the metadata of the last event, until StoredAt and Metadata are called.
func (k *Case[C, E, S, R]) Stored(h History) *Case[C, E, S, R] {
	k.t.Helper()
	if h.Snapshot != nil {
		k.info.SeqNr = h.Snapshot.SeqNr
		k.state = k.decoded(h.Snapshot.Payload)
	}
	for _, e := range h.Events {
		k.info = behavior.Info{SeqNr: e.SeqNr, Time: e.Time.UTC().Round(0)}
		if k.metadata != nil && e.Metadata.SerializerID != 0 {
			var err error
			if k.info.Metadata, err = k.metadata.Decode(e.Metadata); err != nil {
				k.t.Fatalf("event %d: the metadata cannot be decoded: %v", e.SeqNr, err)
			}
		}
		if err := k.stored(k, e.Payload); err != nil {
			k.t.Fatalf("event %d of manifest %q cannot be decoded: %v", e.SeqNr, e.Manifest, err)
		}
	}
	if h.State.SerializerID == 0 {
		return k
	}
	if want := k.decoded(h.State); !host.Same(k.states, k.state, want) {
		k.t.Fatalf("state: got %+v, want %+v", k.state, want)
	}
	return k
}

// decoded is a state as a host reads it.
func (k *Case[C, E, S, R]) decoded(p annals.Payload) S {
	k.t.Helper()
	s, err := k.states.Decode(p)
	if err != nil {
		k.t.Fatalf("a state of manifest %q cannot be decoded: %v", p.Manifest, err)
	}
	return k.restore(s)
}
