package memstore

import (
	"context"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/writes"
)

// states is the annals.StateStore of a view.
type states struct{ view }

type stateRow struct {
	annals.State
	columns annals.Columns // additional ones; never changed
	writes  writes.List
}

func (v states) Get(_ context.Context, id annals.PersistenceID) (annals.State, bool, error) {
	d, unlock := v.read()
	defer unlock()
	row, ok := d.states.find(id)
	return row.State, ok && !row.Deleted, nil
}

func (v states) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return v.change(ctx, w, false)
}

func (v states) Delete(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return v.change(ctx, w, true)
}

func (v states) change(ctx context.Context, w annals.StateWrite, deletes bool) (r annals.Receipt, err error) {
	if v.tx == nil && v.types[w.ID.Type()].OnChange != nil {
		err = v.alone(ctx, func(ctx context.Context, v view) (err error) {
			r, err = states{v}.change(ctx, w, deletes)
			return err
		})
		return r, err
	}
	err = v.write(ctx, func(d *data) error {
		old := d.states.get(w.ID)
		earlier, err := old.writes.Check(w, old.Revision)
		if err != nil {
			return err
		}
		if earlier != nil {
			r = annals.Receipt{SeqNr: earlier.Revision, Time: earlier.Time, Repeated: true}
			return nil
		}
		if last := d.streams.get(w.ID).last; w.Event != nil && last != w.After {
			return writes.EventMisfit(w.After, last)
		}
		s := annals.State{ID: w.ID, Revision: w.After + 1, Time: d.now(w.ID), Payload: w.Payload, Tags: slices.Clone(w.Tags), Metadata: w.Metadata, Deleted: deletes}
		columns, err := v.handle(ctx, old, s)
		if err != nil {
			return err
		}
		if w.Event != nil {
			d.append(w.ID, []annals.NewEvent{*w.Event}, w.WriteID, s.Time)
		}
		d.states.set(s.ID, stateRow{s, columns, old.writes.With(writes.Write{Revision: s.Revision, Time: s.Time, WriteID: w.WriteID})})
		r = annals.Receipt{SeqNr: s.Revision, Time: s.Time}
		return nil
	})
	return r, err
}
