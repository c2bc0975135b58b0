package memstore

import (
	"context"
	"errors"
	"time"

	"github.com/annals-go/annals"
)

// Forget is annals.Forgetter.
func (v view) Forget(_ context.Context, f annals.Forgetting) (bool, error) {
	d, unlock := v.write()
	defer unlock()
	st, state := d.streams[f.ID], d.states[f.ID]
	refuse := func(last annals.SeqNr, what string) (bool, error) {
		return false, &annals.Error{Last: last, Kind: annals.ErrConflict, Err: errors.New(what)}
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
	if f.Age > 0 && time.Since(deleted) < f.Age { // since the zero time it is longer than any age
		return false, nil
	}
	if !f.DryRun {
		delete(d.streams, f.ID)
		delete(d.snapshots, f.ID)
		delete(d.states, f.ID)
	}
	return true, nil
}
