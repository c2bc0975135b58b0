package dynamostore

import (
	"context"

	"github.com/annals-go/annals"
)

type snapshotsView struct{ view }

// Latest is annals.SnapshotStore.
func (v snapshotsView) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (s annals.Snapshot, ok bool, err error) {
	if err := id.ValidateRead("load snapshot", v.limits()); err != nil {
		return s, false, err
	}
	err = v.call(ctx, annals.Call{Op: "load snapshot", ID: id}, false, func(ctx context.Context) (err error) {
		s, ok, err = v.s.offer.Snapshots.Latest(ctx, v.x, id, c)
		return err
	})
	return s, ok, err
}

// Save is annals.SnapshotStore.
func (v snapshotsView) Save(ctx context.Context, s annals.Snapshot) error {
	if err := s.Validate(v.limits()); err != nil {
		return err
	}
	return v.call(ctx, annals.Call{Op: "save snapshot", ID: s.ID}, true, func(ctx context.Context) error {
		if s.Time.IsZero() {
			s.Time = v.x.Now()
		}
		return v.s.offer.Snapshots.Save(ctx, v.x, s)
	})
}

// Delete is annals.SnapshotStore.
func (v snapshotsView) Delete(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	if err := c.ValidateDelete(id, v.limits()); err != nil {
		return err
	}
	return v.call(ctx, annals.Call{Op: "delete snapshots", ID: id}, true, func(ctx context.Context) error {
		return v.s.offer.Snapshots.Delete(ctx, v.x, id, c)
	})
}
