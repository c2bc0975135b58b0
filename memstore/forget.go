package memstore

import (
	"context"
	"errors"
	"time"

	"github.com/annals-go/annals"
)

var (
	_ annals.Forgetter = (*Store)(nil)
	_ annals.Forgetter = inTx{}
)

// Forget is annals.Forgetter.
func (s *Store) Forget(ctx context.Context, f annals.Forgetting) (bool, error) {
	return view{s: s}.forget(ctx, f)
}

func (t inTx) Forget(ctx context.Context, f annals.Forgetting) (bool, error) {
	return t.view().forget(ctx, f)
}

func (v view) forget(ctx context.Context, f annals.Forgetting) (bool, error) {
	if err := f.Validate(annals.Limits{}); err != nil {
		return false, err
	}
	d, unlock, err := v.beginWrite(ctx, "forget", f.ID)
	if err != nil {
		return false, err
	}
	defer unlock()
	st, state := d.streams[f.ID], d.states[f.ID]
	refuse := func(last annals.SeqNr, what string) (bool, error) {
		return false, &annals.Error{Op: "forget", ID: f.ID, Last: last, Kind: annals.ErrConflict, Err: errors.New(what)}
	}
	switch {
	case len(st.events) > 0:
		return refuse(st.last, "there are events")
	case len(d.snapshots[f.ID]) > 0:
		return refuse(st.last, "there is a snapshot")
	case state.Revision > 0 && !state.Deleted:
		return refuse(state.Revision, "there is a state")
	}
	deleted := st.deleted
	if state.Time.After(deleted) {
		deleted = state.Time
	}
	if !deleted.IsZero() && time.Since(deleted) < f.Age {
		return false, nil
	}
	if !f.DryRun {
		delete(d.streams, f.ID)
		delete(d.snapshots, f.ID)
		delete(d.states, f.ID)
	}
	return true, nil
}
