package dynamostore

import (
	"context"
	"errors"

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
		st, ok, err = v.s.typeOf(id).stored.States.Get(ctx, v.x, id)
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
	if w.Event != nil && !v.s.offer.Capabilities.StateEvents {
		return r, &annals.Error{Op: op, ID: w.ID, Kind: annals.ErrUnsupported}
	}
	full := plan.StateWrite{StateWrite: w, Deleted: deleted, Given: !w.WriteID.IsZero() && !w.FirstTry, Time: v.x.Now()}
	if w.WriteID.IsZero() {
		full.WriteID = annals.NewWriteID()
	}
	err = v.call(ctx, annals.Call{Op: op, ID: w.ID}, true, func(ctx context.Context) (err error) {
		c := &change{view: v.view, t: v.s.typeOf(w.ID), write: full}
		r, err = c.apply(ctx)
		return err
	})
	return r, err
}

// change is a write of a state on its way, with its additional columns and what its change handler adds.
type change struct {
	view
	t     *stateType
	write plan.StateWrite
}

func (c *change) apply(ctx context.Context) (r annals.Receipt, err error) {
	w := &c.write
	st := annals.State{ID: w.ID, Revision: w.After + 1, Time: w.Time, Payload: w.Payload, Tags: w.Tags, Metadata: w.Metadata, Deleted: w.Deleted}
	if w.Columns, err = c.t.bind(st); err != nil {
		return r, err
	}
	if c.t.OnChange == nil {
		return c.t.stored.States.Write(ctx, c.x, *w)
	}
	end, err := c.s.turns.take(ctx, w.ID)
	if err != nil {
		return r, err
	}
	defer end() // behind the write, so that the next change sees this one
	tx := &Tx{before: c.before}
	err = c.handle(ctx, tx, st)
	if c.tx != nil {
		end() // the transaction may wait for turns of others
	}
	if err != nil {
		if _, _, moved := c.before(ctx); !errors.Is(moved, annals.ErrConflict) {
			return r, err
		}
		// The handler had no reason to run: what it said says nothing.
		return c.t.stored.States.Write(ctx, late{c.x, c.s.engine, c.tx != nil}, *w)
	}
	if c.tx != nil {
		if r, err = c.t.stored.States.Write(ctx, c.x, *w); err == nil {
			c.tx.Add(tx.end()...)
		}
		return r, err
	}
	return c.t.stored.States.Write(ctx, together{c.s.engine, tx.end()}, *w)
}

// handle asks the change handler.
func (c *change) handle(ctx context.Context, tx *Tx, st annals.State) error {
	ctx = annals.ContextWithTx(ctx, c.s)
	err := contained(func() error { return c.t.OnChange(ctx, tx, st) })
	tx.end()
	if ended := ctx.Err(); ended != nil && !errors.Is(err, annals.ErrPanic) {
		return stopped(ended) // whatever the handler makes of it
	}
	return err
}

// before is Tx.Before.
func (c *change) before(ctx context.Context) (annals.State, bool, error) {
	st, ok, err := c.t.stored.States.Get(ctx, c.x, c.write.ID)
	if err == nil && st.Revision != c.write.After {
		err = &annals.Error{Op: "get state", ID: c.write.ID, After: c.write.After, Last: st.Revision, Kind: annals.ErrConflict}
	}
	return st, ok && err == nil, err
}
