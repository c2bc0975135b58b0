package esa

import (
	"errors"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Format makes the stored payloads of events and states from those of annals, and back. JSON and Plain return Formats. Its functions are called
// before anything is written, from many goroutines at once; they must not change the data that they are given, and may return a part of it.
// An error for something to be written is ErrInvalid, for something read ErrCorrupt. Texts of errors must not repeat any of a payload. A nil
// function is that of the Peer's own payloads.
type Format struct {
	// Event returns the payload to store for e, which has ID, SeqNr, Time and Payload.
	Event func(e annals.Event) ([]byte, error)
	// ReadEvent returns the payload in stored, the payload of a row. e has ID, SeqNr and Time, and of Payload what attributes of the row say:
	// the manifest and the serializer id, which is that of JSON in a row without one.
	ReadEvent func(e annals.Event, stored []byte) (annals.Payload, error)
	// Snapshot returns the payload to store for s. version is the one with which an aggregate of the libraries is written: that of the head
	// before the write, and 1 in the first write.
	Snapshot func(s annals.Snapshot, version int64) ([]byte, error)
	// ReadSnapshot returns the snapshot in stored. s has ID, and what attributes of the row say: the number and the time, zero where they do
	// not, the manifest, which is the entity's type in a row without one, and the serializer id as in ReadEvent.
	ReadSnapshot func(s annals.Snapshot, stored []byte) (annals.Snapshot, error)

	plain      bool // payloads are stored as they are
	unnumbered bool // payloads do not have their numbers
}

// isSet reports whether a function of f is not that of the Peer.
func (f Format) isSet() bool {
	return f.Event != nil || f.ReadEvent != nil || f.Snapshot != nil || f.ReadSnapshot != nil
}

// or is f with the functions of other in place of those that are nil.
func (f Format) or(other Format) Format {
	if !f.isSet() {
		return other
	}
	if f.Event == nil {
		f.Event = other.Event
	}
	if f.ReadEvent == nil {
		f.ReadEvent = other.ReadEvent
	}
	if f.Snapshot == nil {
		f.Snapshot = other.Snapshot
	}
	if f.ReadSnapshot == nil {
		f.ReadSnapshot = other.ReadSnapshot
	}
	return f
}

// jsonSerializer is the serializer id of JSON, as package codec has it.
const jsonSerializer = 31

// Plain returns the Format that stores payloads as they are: it is that of Rust3, whose rows have the manifest of an event in an attribute. With
// other peers, Annals adds attributes for the manifest, and for the number of a state where the row has none. The libraries cannot read such
// payloads, so Plain with another peer is for tables that only Annals reads.
func Plain() Format {
	return Format{
		Event: func(e annals.Event) ([]byte, error) { return e.Data, nil },
		ReadEvent: func(e annals.Event, stored []byte) (annals.Payload, error) {
			e.Data = stored
			return e.Payload, nil
		},
		Snapshot: func(s annals.Snapshot, _ int64) ([]byte, error) { return s.Data, nil },
		ReadSnapshot: func(s annals.Snapshot, stored []byte) (annals.Snapshot, error) {
			s.Data = stored
			return s, nil
		},
		plain: true,
	}
}

// unfit returns the error of a Format for something to be written. An *annals.Error says itself what it is.
func unfit(what string, n annals.SeqNr, err error) error {
	if _, ok := errors.AsType[*annals.Error](err); ok {
		return err
	}
	return plan.Misfit("%s %d: %w", what, n, err)
}
