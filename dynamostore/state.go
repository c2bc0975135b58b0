package dynamostore

import (
	"context"
	"fmt"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

type statesView struct{ view }

// Get is annals.StateStore.
func (v statesView) Get(ctx context.Context, id annals.PersistenceID) (st annals.State, ok bool, err error) {
	if err := id.ValidateRead("get state", v.limits()); err != nil {
		return st, false, err
	}
	err = v.call(ctx, annals.Call{Op: "get state", ID: id}, false, func(ctx context.Context) (err error) {
		st, ok, err = v.s.rooms.States.Get(ctx, v.x, id)
		return err
	})
	return st, ok, err
}

// Put is annals.StateStore.
func (v statesView) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return v.write(ctx, "put state", w, false)
}

// Delete is annals.StateStore.
func (v statesView) Delete(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	w.Payload = annals.Payload{}
	return v.write(ctx, "delete state", w, true)
}

func (v statesView) write(ctx context.Context, op string, w annals.StateWrite, deleted bool) (r annals.Receipt, err error) {
	if err := w.Validate(op, v.limits()); err != nil {
		return r, err
	}
	if w.Event != nil && !v.s.rooms.Capabilities.StateEvents {
		return r, &annals.Error{Op: op, ID: w.ID, Kind: annals.ErrUnsupported}
	}
	full := plan.StateWrite{StateWrite: w, Deleted: deleted, Given: !w.WriteID.IsZero() && !w.FirstTry, Time: v.x.Now()}
	if w.WriteID.IsZero() {
		full.WriteID = annals.NewWriteID()
	}
	err = v.call(ctx, annals.Call{Op: op, ID: w.ID}, true, func(ctx context.Context) error {
		x, err := v.withChanges(ctx, &full)
		if err == nil {
			r, err = v.s.rooms.States.Write(ctx, x, full)
		}
		return err
	})
	return r, err
}

// withChanges asks the state type for additional columns and for what its change handler wants to write along. The executor
// it returns writes both in one transaction.
func (v statesView) withChanges(ctx context.Context, w *plan.StateWrite) (plan.Executor, error) {
	t, ok := v.s.types[w.ID.Type()]
	if !ok {
		return v.x, nil
	}
	st := annals.State{ID: w.ID, Revision: w.After + 1, Time: w.Time, Payload: w.Payload, Tags: w.Tags, Deleted: w.Deleted}
	if t.Bind != nil && !w.Deleted {
		columns, err := t.Bind(st)
		if err != nil {
			return nil, &annals.Error{Err: err}
		}
		for name := range columns {
			if !slices.Contains(t.Columns, name) {
				return nil, &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("the column %q is not declared", name)}
			}
		}
		w.Columns = columns
	}
	if w.Deleted {
		w.Columns = annals.Columns{}
		for _, name := range t.Columns {
			w.Columns[name] = nil // a tombstone is not found by its columns
		}
	}
	if t.OnChange == nil {
		return v.x, nil
	}
	tx := v.tx
	if tx == nil {
		tx = &Tx{}
	}
	if err := t.OnChange(ctx, tx, st); err != nil {
		return nil, &annals.Error{Err: err}
	}
	if v.tx != nil {
		return v.x, nil // its items are in the transaction already
	}
	return together{v.s.engine, tx.items}, nil
}
