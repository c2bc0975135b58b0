package memstore

import (
	"context"
	"time"

	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/writes"
)

// Forget is ability.Forgetter.
func (v view) Forget(ctx context.Context, f ability.Forgetting) (done bool, err error) {
	err = v.write(ctx, func(d *data) error {
		st, state := d.streams.get(f.ID), d.states.get(f.ID)
		last, live := max(st.last, state.Revision), state.Revision > 0 && !state.Deleted
		deleted := st.deleted
		if state.Time.After(deleted) {
			deleted = state.Time
		}
		err := writes.Undeleted(last, len(st.events) > 0, len(d.snapshots.get(f.ID)) > 0, live)
		done = err == nil && (f.Age <= 0 || time.Since(deleted) >= f.Age) // since the zero time it is longer than any age
		if done && !f.DryRun {
			d.streams.delete(f.ID)
			d.snapshots.delete(f.ID)
			d.states.delete(f.ID)
			v.forget(f.ID)
		}
		return err
	})
	return done, err
}
