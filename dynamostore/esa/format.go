package esa

import (
	"errors"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Format makes the stored payloads of events and states from those of annals, and back. JSON and Plain return Formats. Its methods are called
// before anything is written, from many goroutines at once; they must not change the data that they are given, and may return a part of it.
// An error for something to be written is ErrInvalid, for something read ErrCorrupt. Texts of errors must not repeat any of a payload.
type Format interface {
	// Event returns the payload to store for e, which has ID, SeqNr, Time and Payload.
	Event(e annals.Event) ([]byte, error)
	// ReadEvent returns the payload in stored, the payload of a row. e has ID, SeqNr and Time, and of Payload what attributes of the row say:
	// the manifest and the serializer id, which is that of JSON in a row without one.
	ReadEvent(e annals.Event, stored []byte) (annals.Payload, error)
	// Snapshot returns the payload to store for s. version is the one with which an aggregate of the libraries is written: that of the head
	// before the write, and 1 in the first write.
	Snapshot(s annals.Snapshot, version int64) ([]byte, error)
	// ReadSnapshot returns the snapshot in stored. s has ID, and what attributes of the row say: the number and the time, zero where they do
	// not, the manifest, which is the entity's type in a row without one, and the serializer id as in ReadEvent.
	ReadSnapshot(s annals.Snapshot, stored []byte) (annals.Snapshot, error)
}

// jsonSerializer is the serializer id of JSON, as package codec has it.
const jsonSerializer = 31

// Plain returns the Format that stores payloads as they are: it is that of Rust3, whose rows have the manifest of an event in an attribute. With
// other peers, Annals adds attributes for the manifest, and for the number of a state where the row has none. The libraries cannot read such
// payloads, so Plain with another peer is for tables that only Annals reads.
func Plain() Format { return plain{} }

type plain struct{}

func (plain) Event(e annals.Event) ([]byte, error) { return e.Data, nil }

func (plain) ReadEvent(e annals.Event, stored []byte) (annals.Payload, error) {
	e.Data = stored
	return e.Payload, nil
}

func (plain) Snapshot(s annals.Snapshot, _ int64) ([]byte, error) { return s.Data, nil }

func (plain) ReadSnapshot(s annals.Snapshot, stored []byte) (annals.Snapshot, error) {
	s.Data = stored
	return s, nil
}

// unfit returns the error of a Format for something to be written. An *annals.Error says itself what it is.
func unfit(what string, n annals.SeqNr, err error) error {
	if _, ok := errors.AsType[*annals.Error](err); ok {
		return err
	}
	return plan.Misfit("%s %d: %w", what, n, err)
}
