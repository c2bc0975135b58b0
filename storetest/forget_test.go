package storetest

import (
	"context"
	"runtime"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/memstore"
)

type hastyForgetter struct{ *memstore.Store }

func (s hastyForgetter) Forget(ctx context.Context, f ability.Forgetting) (bool, error) {
	f.Age = 0
	return s.Store.Unwrap().(ability.Forgetter).Forget(ctx, f)
}

// agelessForgetter does not know when an entity has skipped, or its state was deleted.
type agelessForgetter struct {
	*memstore.Store
	skipped sync.Map
}

func (s *agelessForgetter) SkipTo(ctx context.Context, id annals.PersistenceID, after, n annals.SeqNr) error {
	s.skipped.Store(id, true)
	return s.Store.Unwrap().(ability.Skipper).SkipTo(ctx, id, after, n)
}

func (s *agelessForgetter) Forget(ctx context.Context, f ability.Forgetting) (bool, error) {
	state, _, _ := s.States().Get(ctx, f.ID)
	if _, skipped := s.skipped.Load(f.ID); skipped || state.Deleted {
		f.Age = 0
	}
	return s.Store.Unwrap().(ability.Forgetter).Forget(ctx, f)
}

// lateForgetter checks that the state is deleted, and later removes the state without another check.
type lateForgetter struct{ *freshStates }

func (s lateForgetter) Forget(ctx context.Context, f ability.Forgetting) (bool, error) {
	inside := f
	inside.ID, inside.DryRun = s.inside(f.ID), true
	done, err := methodOf[ability.Forgetter](s.Store).Forget(ctx, inside)
	if err == nil && done && !f.DryRun {
		for range 100 {
			runtime.Gosched() // as a network would
		}
		s.lives.Store(f.ID, annals.NewWriteID())
	}
	return done, err
}

func (s lateForgetter) States() annals.StateStore {
	return lateForgetterStates{freshStateStore{s.Store.States(), s.freshStates}}
}

type lateForgetterStates struct{ freshStateStore }

func (st lateForgetterStates) Delete(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	w.ID = st.s.inside(w.ID)
	return st.StateStore.Delete(ctx, w)
}

// carelessForgetter deletes whatever is there instead of refusing.
type carelessForgetter struct{ *memstore.Store }

func (s carelessForgetter) Forget(ctx context.Context, f ability.Forgetting) (bool, error) {
	if !f.DryRun {
		if err := s.Journal().DeleteTo(ctx, f.ID, annals.MaxSeqNr); err != nil {
			return false, err
		}
		if err := s.Snapshots().Delete(ctx, f.ID, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr}); err != nil {
			return false, err
		}
	}
	return s.Store.Unwrap().(ability.Forgetter).Forget(ctx, f)
}
