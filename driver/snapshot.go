package driver

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/valid"
)

// Snapshots is annals.Store.
func (s *store) Snapshots() annals.SnapshotStore {
	return snapshots{s, s.driver.Snapshots()}
}

type snapshots struct {
	s *store
	d annals.SnapshotStore // nil where Snapshots is not claimed
}

// Latest is annals.SnapshotStore.
func (s snapshots) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (newest annals.Snapshot, ok bool, err error) {
	k := s.s.start(ctx, annals.Call{Op: "load snapshot", ID: id}, &err)
	defer k.end(&err)
	if err := k.use(claimed(s.s.caps.Snapshots, valid.ID("", id, s.s.caps.Limits)), false); err != nil {
		return annals.Snapshot{}, false, err
	}
	newest, ok, err = s.d.Latest(k.in, id, boundedTimes(c))
	k.transferred(snapshotSize(newest))
	return newest, ok, err
}

// Save is annals.SnapshotStore.
func (s snapshots) Save(ctx context.Context, snapshot annals.Snapshot) (err error) {
	k := s.s.start(ctx, annals.Call{Op: "save snapshot", ID: snapshot.ID}, &err)
	defer k.end(&err)
	if err := k.use(claimed(s.s.caps.Snapshots, valid.Snapshot(snapshot, s.s.caps.Limits)), true); err != nil {
		return err
	}
	if err = s.d.Save(k.in, snapshot); err == nil {
		k.transferred(snapshotSize(snapshot))
	}
	return err
}

// Delete is annals.SnapshotStore.
func (s snapshots) Delete(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	fault := claimed(s.s.caps.Snapshots, valid.SnapshotDelete(id, c, s.s.caps.Limits))
	return do(ctx, s.s, annals.Call{Op: "delete snapshots", ID: id}, true, fault, func(ctx context.Context) error { return s.d.Delete(ctx, id, boundedTimes(c)) })
}

func boundedTimes(c annals.SnapshotCriteria) annals.SnapshotCriteria {
	c.MinTime, c.MaxTime = bounded(c.MinTime), bounded(c.MaxTime)
	return c
}
