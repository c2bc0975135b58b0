package dynamostore

import (
	"context"

	"github.com/annals-go/annals"
)

type snapshots struct{ view }

// Latest is annals.SnapshotStore.
func (s snapshots) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	return s.offer.Snapshots.Latest(ctx, s.x, id, c)
}

// Save is annals.SnapshotStore.
func (s snapshots) Save(ctx context.Context, snapshot annals.Snapshot) error {
	if snapshot.Time.IsZero() {
		snapshot.Time = s.x.Now()
	}
	return s.offer.Snapshots.Save(ctx, s.x, snapshot)
}

// Delete is annals.SnapshotStore.
func (s snapshots) Delete(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	return s.offer.Snapshots.Delete(ctx, s.x, id, c)
}
