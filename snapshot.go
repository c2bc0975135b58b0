package annals

import (
	"context"
	"time"
)

// Snapshot is an entity's state as of one event.
type Snapshot struct {
	ID    PersistenceID
	SeqNr SeqNr     // of the last event in it
	Time  time.Time // when it was taken, UTC, in the years 2 to 9999; zero in Save = the store's clock
	Payload
	Tags     []string // of that event, where followers may start from snapshots; a store without Capabilities.SnapshotQueries need not keep them
	Metadata Payload

	// EventTime is the time of that event, or of the save if there was no such event. Query.Snapshots sets it; it is zero elsewhere, and Save
	// ignores it.
	EventTime time.Time
}

// Offset is the place of s in the order of Query.Snapshots: that of its event.
func (s Snapshot) Offset() Offset { return Offset{Time: s.EventTime, ID: s.ID, SeqNr: s.SeqNr} }

// SnapshotCriteria chooses snapshots by number and time, bounds inclusive. A zero field does not bound.
type SnapshotCriteria struct {
	MinSeqNr, MaxSeqNr SeqNr
	MinTime, MaxTime   time.Time
}

// SnapshotStore keeps snapshots: one per entity or many, as the store's tables have it. Its methods may be called from
// many goroutines at once.
type SnapshotStore interface {
	// Latest is the snapshot with the highest number that fits c.
	Latest(ctx context.Context, id PersistenceID, c SnapshotCriteria) (Snapshot, bool, error)
	// Save stores s, replacing one of the same number. It never makes Latest go back: an older snapshot arriving late is
	// dropped, without an error, where only one is kept.
	Save(ctx context.Context, s Snapshot) error
	// Delete removes what fits c. Repeatable. c must have an upper bound (ErrInvalid), MaxSeqNr for all.
	Delete(ctx context.Context, id PersistenceID, c SnapshotCriteria) error
}
