package dynamostore

import (
	"context"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// guarding is the view of a transaction whose layout claims GuardsReads.
type guarding struct{ view }

// guarded returns the driver of a transaction.
func guarded(v view) driver.Driver {
	if v.Capabilities().GuardsReads {
		return guarding{v}
	}
	return v
}

// Guard implements driver.Guarder. It adds checks to the transaction, which is not yet sent: see docs/adr/0058-guarded-reads.md.
func (g guarding) Guard(_ context.Context, read []driver.Seen, _ []annals.PersistenceID) error {
	for _, r := range read {
		guards, err := g.guards(r)
		if err != nil {
			return &annals.Error{ID: r.ID, Kind: annals.ErrInvalid, Err: err}
		}
		for _, c := range guards {
			g.tx.check(g.s.engine, c.Op, func(old plan.Item) error {
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
func (g guarding) guards(r driver.Seen) ([]plan.Guard, error) {
	switch {
	case r.State:
		c, err := g.s.typeOf(r.ID).stored.States.Guard(r.ID, r.Number)
		return []plan.Guard{c}, err
	case r.Number == annals.MaxSeqNr:
		return nil, nil
	}
	return g.Contracts.Guard(r.ID, r.Number)
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
