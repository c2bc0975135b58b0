package storetest

import (
	"context"
	"iter"
	"runtime"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/valid"
	"github.com/annals-go/annals/memstore"
)

func lastSaved(ctx context.Context, c *faulty.Call, run func() error) error {
	if snap, ok := c.Arg.(*annals.Snapshot); ok {
		if err := valid.Snapshot(*snap, annals.Limits{}); err != nil {
			return err
		}
		if err := c.Store.Snapshots().Delete(ctx, c.ID, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr}); err != nil {
			return err
		}
	}
	return run()
}

// halfLooks looks for a snapshot of an even number, then for one of an odd number.
type halfLooks struct{ *memstore.Store }

func (s halfLooks) Snapshots() annals.SnapshotStore { return halfLookSnapshots{s.Store.Snapshots()} }

type halfLookSnapshots struct{ annals.SnapshotStore }

func (s halfLookSnapshots) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	for half := range annals.SeqNr(2) {
		found, ok, err := s.SnapshotStore.Latest(ctx, id, c)
		if err != nil || ok && found.SeqNr%2 == half {
			return found, ok, err
		}
		runtime.Gosched() // as a network would
	}
	return annals.Snapshot{}, false, nil
}

// tornSnapshots reads the first half of a snapshot, then the second, which may be of a later save.
type tornSnapshots struct{ *memstore.Store }

func (s tornSnapshots) Snapshots() annals.SnapshotStore {
	return tornSnapshotStore{s.Store.Snapshots()}
}

type tornSnapshotStore struct{ annals.SnapshotStore }

func (s tornSnapshotStore) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	first, ok, err := s.SnapshotStore.Latest(ctx, id, c)
	if !ok || err != nil {
		return first, ok, err
	}
	runtime.Gosched() // as a network would
	second, ok, err := s.SnapshotStore.Latest(ctx, id, c)
	if ok && len(first.Data) == len(second.Data) {
		half := len(first.Data) / 2
		second.Data = slices.Concat(first.Data[:half], second.Data[half:])
	}
	return second, ok, err
}

// takenOrder yields snapshots in the order in which they were taken.
func takenOrder(q annals.Query) annals.Query { return takenOrderQuery{q} }

type takenOrderQuery struct{ annals.Query }

func (q takenOrderQuery) Snapshots(ctx context.Context, f annals.Filter) iter.Seq2[annals.Snapshot, error] {
	found, err := collect(q.Query.Snapshots(ctx, annals.Filter{}))
	for i := range found {
		found[i].EventTime = found[i].Time
	}
	slices.SortFunc(found, func(a, b annals.Snapshot) int { return a.Offset().Compare(b.Offset()) })
	return listed(chosen(f, found, annals.Snapshot.Offset, func(s annals.Snapshot) []string { return s.Tags }), err)
}
