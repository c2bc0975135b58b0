package headed

import "github.com/annals-go/annals"

// Format makes the stored payloads from those of annals, and back. It is called before anything is written. Its errors are ErrInvalid for what is
// to be stored, ErrCorrupt for what was stored. Its methods may be called from many goroutines at once.
type Format interface {
	// Event returns the bytes to store. e has ID, SeqNr, Time and Payload.
	Event(e annals.Event) ([]byte, error)
	// ReadEvent returns the payload of stored bytes. e has ID, SeqNr and Time, and the Manifest and SerializerID of the row, if it has them.
	ReadEvent(e annals.Event, stored []byte) (annals.Payload, error)
	// Snapshot returns the bytes to store. version is that of the aggregate after the write.
	Snapshot(s annals.Snapshot, version int64) ([]byte, error)
	// ReadSnapshot returns the payload of stored bytes and its number. s has ID and Time; and SeqNr, Manifest and SerializerID of the row,
	// if it has them.
	ReadSnapshot(s annals.Snapshot, stored []byte) (annals.Payload, annals.SeqNr, error)
}

// Plain stores the bytes of payloads as they are. Manifests and serializer ids are in the attributes manifest and serializer, and the number
// of a head's state is in state_seq_nr. It is for tables whose snapshots no library writes.
type Plain struct{}

// Event is Format.
func (Plain) Event(e annals.Event) ([]byte, error) { return e.Data, nil }

// ReadEvent is Format.
func (Plain) ReadEvent(e annals.Event, stored []byte) (annals.Payload, error) {
	return annals.Payload{SerializerID: e.SerializerID, Manifest: e.Manifest, Data: stored}, nil
}

// Snapshot is Format.
func (Plain) Snapshot(s annals.Snapshot, _ int64) ([]byte, error) { return s.Data, nil }

// ReadSnapshot is Format.
func (Plain) ReadSnapshot(s annals.Snapshot, stored []byte) (annals.Payload, annals.SeqNr, error) {
	return annals.Payload{SerializerID: s.SerializerID, Manifest: s.Manifest, Data: stored}, s.SeqNr, nil
}
