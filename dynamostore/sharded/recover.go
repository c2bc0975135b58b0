package sharded

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// recovery is plan.Recover. It is annals.Recover with a first search for a snapshot that reads once. If that search misses the snapshot, the
// events do not begin with number 1, and annals.Recover searches again; the second search is a complete Latest.
type recovery struct {
	journal   *journal
	snapshots *snapshots
	none      bool // there is no table of snapshots
}

func (r recovery) Recover(ctx context.Context, x plan.Executor, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	return annals.Recover(ctx, &recovered{recovery: r, x: x}, id, snapshot, event)
}

// recovered is the annals.Store that one recovery reads.
type recovered struct {
	annals.Unsupported
	recovery
	x      plan.Executor
	looked bool
}

// Journal is annals.Store.
func (r *recovered) Journal() annals.Journal { return recoveredEvents{r.Unsupported.Journal(), r} }

// Snapshots is annals.Store.
func (r *recovered) Snapshots() annals.SnapshotStore {
	return recoveredSnapshots{r.Unsupported.Snapshots(), r}
}

type recoveredEvents struct {
	annals.Journal
	*recovered
}

// Replay is annals.Journal.
func (r recoveredEvents) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	if from < 1 {
		return func(func(annals.Event, error) bool) {} // the snapshot has the highest number
	}
	return r.journal.Replay(ctx, r.x, id, from, to)
}

// LastSeqNr is annals.Journal.
func (r recoveredEvents) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	return r.journal.LastSeqNr(ctx, r.x, id)
}

type recoveredSnapshots struct {
	annals.SnapshotStore
	*recovered
}

// Latest is annals.SnapshotStore.
func (r recoveredSnapshots) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	if r.none {
		return r.SnapshotStore.Latest(ctx, id, c)
	}
	if !r.looked {
		r.looked = true
		return r.snapshots.look(ctx, r.x, id, c)
	}
	return r.snapshots.Latest(ctx, r.x, id, c)
}
