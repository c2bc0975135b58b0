package storetest

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
)

type hastyForgetter struct{ *memstore.Store }

func (s hastyForgetter) Forget(ctx context.Context, f annals.Forgetting) (bool, error) {
	f.Age = 0
	return s.Store.Forget(ctx, f)
}

// carelessForgetter deletes whatever is there instead of refusing.
type carelessForgetter struct{ *memstore.Store }

func (s carelessForgetter) Forget(ctx context.Context, f annals.Forgetting) (bool, error) {
	if !f.DryRun {
		if err := s.Journal().DeleteTo(ctx, f.ID, annals.MaxSeqNr); err != nil {
			return false, err
		}
		if err := s.Snapshots().Delete(ctx, f.ID, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr}); err != nil {
			return false, err
		}
	}
	return s.Store.Forget(ctx, f)
}
