package sharded

import (
	"context"

	"github.com/annals-go/annals"
)

// recoverer is an annals.Recoverer. It calls annals.Recover with a first search for a snapshot that reads once. If that search misses the
// snapshot, the events do not begin with number 1, and annals.Recover searches again; the second search is a complete Latest.
type recoverer struct {
	journal   *journal
	snapshots *snapshots
	none      bool // there is no table of snapshots
}

// Recover is annals.Recoverer.
func (r recoverer) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	s := recovered{journal: r.journal, snapshots: &searchedOnce{snapshots: r.snapshots}}
	if r.none {
		s.snapshots = s.Unsupported.Snapshots()
	}
	return annals.Recover(ctx, s, id, snapshot, event)
}

// recovered is the annals.Store that one recovery reads.
type recovered struct {
	annals.Unsupported
	journal   *journal
	snapshots annals.SnapshotStore
}

// Journal is annals.Store.
func (r recovered) Journal() annals.Journal { return r.journal }

// Snapshots is annals.Store.
func (r recovered) Snapshots() annals.SnapshotStore { return r.snapshots }

// searchedOnce is a snapshot table whose first Latest reads once.
type searchedOnce struct {
	*snapshots
	done bool
}

// Latest is annals.SnapshotStore.
func (s *searchedOnce) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	if !s.done {
		s.done = true
		return s.look(ctx, id, c)
	}
	return s.snapshots.Latest(ctx, id, c)
}
