package annals

import (
	"context"
	"iter"
	"time"
)

// Unsupported is a Store that can do nothing. Embed it in a store to answer ErrUnsupported for what the store lacks,
// also for contracts that later versions of this package add.
type Unsupported struct{}

// Journal is a Journal that refuses everything.
func (Unsupported) Journal() Journal { return unsupported{} }

// Snapshots is a SnapshotStore that refuses everything.
func (Unsupported) Snapshots() SnapshotStore { return unsupportedSnapshots{} }

// States is a StateStore that refuses everything.
func (Unsupported) States() StateStore { return unsupportedStates{} }

// Query is a Query that refuses everything.
func (Unsupported) Query() Query { return unsupported{} }

// Offsets is an OffsetStore that refuses everything.
func (Unsupported) Offsets() OffsetStore { return unsupportedOffsets{} }

// Capabilities claim nothing.
func (Unsupported) Capabilities() Capabilities { return Capabilities{} }

// Close does nothing.
func (Unsupported) Close() error { return nil }

type unsupported struct{}

func refuse(op string, id PersistenceID) error { return &Error{Op: op, ID: id, Kind: ErrUnsupported} }
func refuseSeq[T any](op string, id PersistenceID) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) { var zero T; yield(zero, refuse(op, id)) }
}

func (unsupported) Append(_ context.Context, c Commit) (Receipt, error) {
	return Receipt{}, refuse("append", c.ID)
}
func (unsupported) Replay(_ context.Context, id PersistenceID, _, _ SeqNr) iter.Seq2[Event, error] {
	return refuseSeq[Event]("replay", id)
}
func (unsupported) LastSeqNr(_ context.Context, id PersistenceID) (SeqNr, error) {
	return 0, refuse("last number", id)
}
func (unsupported) DeleteTo(_ context.Context, id PersistenceID, _ SeqNr) error {
	return refuse("delete events", id)
}
func (unsupported) Events(context.Context, Filter) iter.Seq2[Event, error] {
	return refuseSeq[Event]("query events", "")
}
func (unsupported) States(context.Context, Filter) iter.Seq2[State, error] {
	return refuseSeq[State]("query states", "")
}
func (unsupported) Snapshots(context.Context, Filter) iter.Seq2[Snapshot, error] {
	return refuseSeq[Snapshot]("query snapshots", "")
}
func (unsupported) IDs(context.Context, string, PersistenceID) iter.Seq2[PersistenceID, error] {
	return refuseSeq[PersistenceID]("query ids", "")
}
func (unsupported) Newest(context.Context, Filter) (Offset, error) {
	return Offset{}, refuse("query newest", "")
}
func (unsupported) Horizon(context.Context) (time.Time, error) {
	return time.Time{}, refuse("query horizon", "")
}

type unsupportedSnapshots struct{}

func (unsupportedSnapshots) Latest(_ context.Context, id PersistenceID, _ SnapshotCriteria) (Snapshot, bool, error) {
	return Snapshot{}, false, refuse("load snapshot", id)
}
func (unsupportedSnapshots) Save(_ context.Context, s Snapshot) error {
	return refuse("save snapshot", s.ID)
}
func (unsupportedSnapshots) Delete(_ context.Context, id PersistenceID, _ SnapshotCriteria) error {
	return refuse("delete snapshots", id)
}

type unsupportedStates struct{}

func (unsupportedStates) Get(_ context.Context, id PersistenceID) (State, bool, error) {
	return State{}, false, refuse("get state", id)
}
func (unsupportedStates) Put(_ context.Context, w StateWrite) (Receipt, error) {
	return Receipt{}, refuse("put state", w.ID)
}
func (unsupportedStates) Delete(_ context.Context, w StateWrite) (Receipt, error) {
	return Receipt{}, refuse("delete state", w.ID)
}

type unsupportedOffsets struct{}

func (unsupportedOffsets) Load(context.Context, string, SliceRange) ([]Position, error) {
	return nil, refuse("load positions", "")
}
func (unsupportedOffsets) Handled(_ context.Context, _ string, ids ...PersistenceID) ([]Offset, error) {
	if len(ids) == 1 {
		return nil, refuse("load offsets", ids[0])
	}
	return nil, refuse("load offsets", "")
}
func (unsupportedOffsets) Save(context.Context, Progress) error { return refuse("save offsets", "") }
func (unsupportedOffsets) Reset(context.Context, string, SliceRange, Offset) error {
	return refuse("reset offsets", "")
}
