package driver

import (
	"context"
	"iter"
	"time"

	"github.com/annals-go/annals"
)

// Unsupported is an annals.Store that can do nothing. Embed it in a Driver for the contracts that the backend lacks, also those that later
// versions add.
type Unsupported struct{}

// Journal is a Journal that refuses everything.
func (Unsupported) Journal() annals.Journal { return unsupported{} }

// Snapshots is a SnapshotStore that refuses everything.
func (Unsupported) Snapshots() annals.SnapshotStore { return unsupportedSnapshots{} }

// States is a StateStore that refuses everything.
func (Unsupported) States() annals.StateStore { return unsupportedStates{} }

// Query is a Query that refuses everything.
func (Unsupported) Query() annals.Query { return unsupported{} }

// Offsets is an OffsetStore that refuses everything.
func (Unsupported) Offsets() annals.OffsetStore { return unsupportedOffsets{} }

// Capabilities claim nothing.
func (Unsupported) Capabilities() annals.Capabilities { return annals.Capabilities{} }

// Close does nothing.
func (Unsupported) Close() error { return nil }

type unsupported struct{}

func refuse(op string, id annals.PersistenceID) error {
	return &annals.Error{Op: op, ID: id, Kind: annals.ErrUnsupported}
}
func refuseSeq[T any](op string, id annals.PersistenceID) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) { var zero T; yield(zero, refuse(op, id)) }
}

func (unsupported) Append(_ context.Context, c annals.Commit) (annals.Receipt, error) {
	return annals.Receipt{}, refuse("append", c.ID)
}
func (unsupported) Replay(_ context.Context, id annals.PersistenceID, _, _ annals.SeqNr) iter.Seq2[annals.Event, error] {
	return refuseSeq[annals.Event]("replay", id)
}
func (unsupported) LastSeqNr(_ context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	return 0, refuse("last number", id)
}
func (unsupported) DeleteTo(_ context.Context, id annals.PersistenceID, _ annals.SeqNr) error {
	return refuse("delete events", id)
}
func (unsupported) Events(context.Context, annals.Filter) iter.Seq2[annals.Event, error] {
	return refuseSeq[annals.Event]("query events", "")
}
func (unsupported) States(context.Context, annals.Filter) iter.Seq2[annals.State, error] {
	return refuseSeq[annals.State]("query states", "")
}
func (unsupported) Snapshots(context.Context, annals.Filter) iter.Seq2[annals.Snapshot, error] {
	return refuseSeq[annals.Snapshot]("query snapshots", "")
}
func (unsupported) IDs(context.Context, string, annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	return refuseSeq[annals.PersistenceID]("query ids", "")
}
func (unsupported) Newest(context.Context, annals.Filter) (annals.Offset, error) {
	return annals.Offset{}, refuse("query newest", "")
}
func (unsupported) Horizon(context.Context) (time.Time, error) {
	return time.Time{}, refuse("query horizon", "")
}

type unsupportedSnapshots struct{}

func (unsupportedSnapshots) Latest(_ context.Context, id annals.PersistenceID, _ annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	return annals.Snapshot{}, false, refuse("load snapshot", id)
}
func (unsupportedSnapshots) Save(_ context.Context, s annals.Snapshot) error {
	return refuse("save snapshot", s.ID)
}
func (unsupportedSnapshots) Delete(_ context.Context, id annals.PersistenceID, _ annals.SnapshotCriteria) error {
	return refuse("delete snapshots", id)
}

type unsupportedStates struct{}

func (unsupportedStates) Get(_ context.Context, id annals.PersistenceID) (annals.State, bool, error) {
	return annals.State{}, false, refuse("get state", id)
}
func (unsupportedStates) Put(_ context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return annals.Receipt{}, refuse("put state", w.ID)
}
func (unsupportedStates) Delete(_ context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return annals.Receipt{}, refuse("delete state", w.ID)
}

type unsupportedOffsets struct{}

func (unsupportedOffsets) Load(context.Context, string, annals.SliceRange) ([]annals.Position, error) {
	return nil, refuse("load positions", "")
}
func (unsupportedOffsets) Handled(_ context.Context, _ string, ids ...annals.PersistenceID) ([]annals.Offset, error) {
	if len(ids) == 1 {
		return nil, refuse("load offsets", ids[0])
	}
	return nil, refuse("load offsets", "")
}
func (unsupportedOffsets) Save(context.Context, annals.Progress) error {
	return refuse("save offsets", "")
}
func (unsupportedOffsets) Forget(_ context.Context, _ string, ids ...annals.PersistenceID) error {
	if len(ids) == 1 {
		return refuse("forget offsets", ids[0])
	}
	return refuse("forget offsets", "")
}
func (unsupportedOffsets) Reset(context.Context, string, annals.SliceRange, annals.Offset) error {
	return refuse("reset offsets", "")
}
