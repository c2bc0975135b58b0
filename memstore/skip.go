package memstore

import (
	"context"

	"github.com/annals-go/annals"
)

// SkipTo is ability.Skipper.
func (v view) SkipTo(ctx context.Context, id annals.PersistenceID, after, n annals.SeqNr) error {
	return v.write(ctx, func(d *data) error {
		s := d.streams.get(id)
		switch {
		case s.last == n && len(s.events) == 0:
			return nil
		case s.last != after:
			return &annals.Error{After: after, Last: s.last, Kind: annals.ErrConflict}
		}
		d.streams.set(id, stream{last: n, commits: s.commits, deleted: d.now(id)})
		return nil
	})
}

// SkipStateTo is ability.StateSkipper.
func (v view) SkipStateTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	return v.write(ctx, func(d *data) error {
		if last := d.states.get(id).Revision; last > 0 {
			return &annals.Error{Last: last, Kind: annals.ErrConflict}
		}
		d.states.set(id, stateRow{State: annals.State{ID: id, Revision: n, Time: d.now(id), Deleted: true}})
		return nil
	})
}
