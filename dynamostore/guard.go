package dynamostore

import (
	"context"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// guard adds checks to the transaction, which is not yet sent: see docs/adr/0058-guarded-reads.md.
func (v view) guard(_ context.Context, read, _ []driver.Seen) error {
	for _, r := range read {
		guards, err := v.guards(r)
		if err != nil {
			return &annals.Error{ID: r.ID, Kind: annals.ErrInvalid, Err: err}
		}
		for _, c := range guards {
			v.tx.check(v.s.engine, c.Op, func(old plan.Item) error {
				if c.Last == nil {
					return r.Conflict(0)
				}
				return r.Conflict(c.Last(old))
			})
		}
	}
	return nil
}

// guards returns what fails once r is out of date. Nothing can follow the greatest number of an event.
func (v view) guards(r driver.Seen) ([]plan.Guard, error) {
	switch {
	case r.State:
		c, err := v.s.typeOf(r.ID).stored.States.Guard(r.ID, r.Number)
		return []plan.Guard{c}, err
	case r.Number == annals.MaxSeqNr:
		return nil, nil
	}
	return v.Contracts.Guard(r.ID, r.Number)
}

// check adds a check to t. The service takes one op for an item: when t writes the item, or checks it already, the condition is added to that op.
// failed makes the error from the item that made the check fail, nil when there was none.
func (t *Tx) check(e *engine, check plan.Op, failed func(old plan.Item) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := e.tables[check.Table].KeyOf(check.Key)
	for i := range t.writes {
		w := &t.writes[i]
		at := slices.IndexFunc(w.Ops, func(op plan.Op) bool {
			return op.Table == check.Table && plan.SameKey(key, e.tables[op.Table].KeyOf(op.Item()))
		})
		if at < 0 {
			continue
		}
		w.Ops = slices.Clone(w.Ops)
		w.Ops[at].And(check)
		refused := w.Refused
		w.Refused = func(old []plan.Item, open bool) (err error) { // nil of a write says that its own condition may fail
			if refused != nil {
				err = refused(old, open)
			}
			if err == nil {
				err = failed(old[at])
			}
			return err
		}
		return
	}
	t.writes = append(t.writes, plan.Write{Ops: []plan.Op{check}, Guards: true, Refused: func(old []plan.Item, _ bool) error { return failed(old[0]) }})
}
