package dynamostore

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Tx collects the caller's own writes; they go out with the store's as one TransactWriteItems: all of them happen or none.
// Add may be called from many goroutines at once.
type Tx struct {
	mu     sync.Mutex
	items  []types.TransactWriteItem
	writes []plan.Write
	after  []func(context.Context) error // to be done when the transaction has been committed
	before func(context.Context) (annals.State, bool, error)
	done   bool
}

// Add puts writes of the caller's own into the transaction, which takes 100 in all, the store's included, and none twice on
// one item. A condition that fails makes the whole ErrConstraint. Behind the end of the transaction, or of the change handler,
// Add does nothing.
func (t *Tx) Add(items ...types.TransactWriteItem) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.done {
		t.items = append(t.items, items...)
	}
}

// Before is the state that a change replaces, for its change handler; ErrInvalid elsewhere. It is false where there is none,
// or a tombstone. What it says still holds when the change is written, or the change is refused. ErrConflict says that it is
// already too late; the handler then returns that.
func (t *Tx) Before(ctx context.Context) (annals.State, bool, error) {
	if t.before == nil {
		return annals.State{}, false, &annals.Error{Op: "get state", Kind: annals.ErrInvalid, Err: errors.New("only a change replaces a state")}
	}
	return t.before(ctx)
}

// end returns what has been added; nothing more will be.
func (t *Tx) end() []types.TransactWriteItem {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = true
	return t.items
}

// InTx is annals.Transactor. Nothing is sent before fn returns nil: reads inside fn do not see its writes, receipts are
// those of a success to come, and a conflict shows when InTx returns.
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx *Tx, in annals.Store) error) error {
	return s.Write(ctx, annals.Call{Op: "transaction"}, func(ctx context.Context) error {
		tx := &Tx{}
		in, end := s.Store.InTx(view{s: s, offer: &s.offer, x: collector{s.engine, tx}, tx: tx})
		if err := func() error {
			defer end()
			defer tx.end()
			return fn(annals.ContextWithTx(ctx, s), tx, inTx{in})
		}(); err != nil {
			return &annals.Error{Err: err}
		}
		if len(tx.writes)+len(tx.items) == 0 {
			return nil
		}
		if _, err := s.engine.transact(ctx, tx.writes, tx.items); err != nil {
			return err
		}
		for _, do := range tx.after {
			if err := do(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// inTx is the store inside a transaction.
type inTx struct{ *driver.Store }

// FindStates is annals.StateFinder.
func (in inTx) FindStates(ctx context.Context, entityType, column string, value any) iter.Seq2[annals.State, error] {
	return driver.FindStates(ctx, in.Store, entityType, column, value)
}

// collector is the executor within a transaction: it reads at once and keeps the writes.
type collector struct {
	*engine
	tx *Tx
}

// Write is plan.Executor.
func (c collector) Write(ctx context.Context, w plan.Write) (plan.Outcome, error) {
	if w.Apart {
		return c.engine.Write(ctx, w)
	}
	if err := ctx.Err(); err != nil { // the call fails: its write must not go out with the others
		return plan.Outcome{}, stopped(err)
	}
	if w.Once {
		w.Ops = slices.Clone(w.Ops)
		for i := range w.Ops {
			op := &w.Ops[i]
			op.Condition, op.Names, op.Values, op.Ours = "", nil, nil, nil
		}
	}
	c.tx.mu.Lock()
	defer c.tx.mu.Unlock()
	c.tx.writes = append(c.tx.writes, w)
	return plan.Outcome{Old: make([]plan.Item, len(w.Ops))}, nil
}

// DeleteAll is plan.Executor.
func (c collector) DeleteAll(_ context.Context, table string, keys []plan.Item) error {
	c.tx.mu.Lock()
	defer c.tx.mu.Unlock()
	c.tx.after = append(c.tx.after, func(ctx context.Context) error { return c.engine.DeleteAll(ctx, table, slices.Clone(keys)) })
	return nil
}

// together is the engine, with the caller's own items in the transaction of every write.
type together struct {
	*engine
	items []types.TransactWriteItem
}

// Write is plan.Executor.
func (t together) Write(ctx context.Context, w plan.Write) (plan.Outcome, error) {
	if len(t.items) == 0 || w.Apart {
		return t.engine.Write(ctx, w)
	}
	outcomes, err := t.engine.transact(ctx, []plan.Write{w}, t.items)
	if err != nil {
		return plan.Outcome{}, err
	}
	return outcomes[0], nil
}

// late is the executor of a write of a state that has moved on: it writes nothing and says what the write would have come to.
// Within a transaction one that had landed goes along, so that the transaction is judged as a whole.
type late struct {
	plan.Executor
	engine *engine
	inTx   bool
}

// Write is plan.Executor.
func (l late) Write(ctx context.Context, w plan.Write) (plan.Outcome, error) {
	old := make([]plan.Item, len(w.Ops))
	for i, op := range w.Ops {
		it, _, err := l.Get(ctx, plan.Get{Table: op.Table, Key: l.engine.keyOfOp(op)})
		if err != nil {
			return plan.Outcome{}, err
		}
		old[i] = it
	}
	outcome, err := w.Judge(old, false, errMovedOn)
	if l.inTx && outcome.Repeated {
		return l.Executor.Write(ctx, w)
	}
	return outcome, err
}

var errMovedOn = errors.New("the state has moved on")

// keyOfOp is the key of the item that op writes.
func (e *engine) keyOfOp(op plan.Op) plan.Item {
	if op.Put == nil {
		return op.Key
	}
	t, key := e.tables[op.Table], plan.Item{}
	for _, k := range []plan.Key{t.Hash, t.Range} {
		if k.Name != "" {
			key[k.Name] = op.Put[k.Name]
		}
	}
	return key
}
