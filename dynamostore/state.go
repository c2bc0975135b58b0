package dynamostore

import (
	"context"
	"errors"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/contexts"
	"github.com/annals-go/annals/internal/statetype"
)

type states struct{ view }

// Get is annals.StateStore.
func (s states) Get(ctx context.Context, id annals.PersistenceID) (annals.State, bool, error) {
	return s.s.typeOf(id).stored.States.Get(ctx, s.x, id)
}

// Put is annals.StateStore.
func (s states) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return s.write(ctx, w, false)
}

// Delete is annals.StateStore.
func (s states) Delete(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return s.write(ctx, w, true)
}

func (s states) write(ctx context.Context, w annals.StateWrite, deleted bool) (annals.Receipt, error) {
	c := &change{view: s.view, t: s.s.typeOf(w.ID), write: plan.StateWrite{StateWrite: w, Deleted: deleted, Given: !w.FirstTry, Time: s.x.Now()}}
	return c.apply(ctx)
}

// SkipStateTo is ability.StateSkipper. No change handler is called, and columns stay empty.
func (v view) SkipStateTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	return v.s.typeOf(id).stored.SkipTo(ctx, v.x, id, n)
}

// change is a write of a state, with its additional columns and the items that its change handler adds.
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
	end, err := c.s.locks.lock(ctx, w.ID)
	if err != nil {
		return r, err
	}
	defer end() // after the write, so that the next change sees this one
	tx := &Tx{before: c.before}
	handling := contexts.WithTx(ctx, c.s)
	err = statetype.Handle(handling, func() error { return c.t.OnChange(handling, tx, st) }, nil)
	items := tx.end()
	if c.tx != nil {
		end() // not held until the transaction ends, which may need the locks of other entities
	}
	if err != nil {
		if _, _, moved := c.before(ctx); !errors.Is(moved, annals.ErrConflict) {
			return r, err
		}
		// The state has changed since the caller read it, so the error of the handler does not count.
		return c.t.stored.States.Write(ctx, stale{c.x, c.s.engine, c.tx != nil}, *w)
	}
	if c.tx != nil {
		if r, err = c.t.stored.States.Write(ctx, c.x, *w); err == nil {
			c.tx.Add(items...)
		}
		return r, err
	}
	return c.t.stored.States.Write(ctx, withItems{c.s.engine, items}, *w)
}

// before is Tx.Before.
func (c *change) before(ctx context.Context) (annals.State, bool, error) {
	st, ok, err := c.t.stored.States.Get(ctx, c.x, c.write.ID)
	if err == nil && st.Revision != c.write.After {
		err = &annals.Error{Op: "get state", ID: c.write.ID, After: c.write.After, Last: st.Revision, Kind: annals.ErrConflict}
	}
	return st, ok && err == nil, err
}
