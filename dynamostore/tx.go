package dynamostore

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Tx collects writes of the caller's own. They are sent together with the store's writes as one TransactWriteItems, which stores all of
// them or none. The methods may be called from many goroutines at once.
type Tx struct {
	mu     sync.Mutex
	items  []types.TransactWriteItem
	writes []plan.Write
	after  []func(context.Context, plan.Executor) error // run after the transaction has been committed
	before func(context.Context) (annals.State, bool, error)
	done   bool
}

// Add adds writes of the caller's own to the transaction. A transaction has at most 100 writes, those of the store included, and at most
// one for each item. When a condition of these writes fails, nothing is stored, and the error is ErrConstraint. After the end of
// the transaction, or of the change handler, Add does nothing.
func (t *Tx) Add(items ...types.TransactWriteItem) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.done {
		t.items = append(t.items, items...)
	}
}

// Before returns, to a change handler, the state that the change replaces. It is false when there is no state or a tombstone. The change
// is stored only if that state is still the current one. ErrConflict says that the state has been replaced already; the handler
// should return this error. Outside a change handler Before is ErrInvalid.
func (t *Tx) Before(ctx context.Context) (annals.State, bool, error) {
	if t.before == nil {
		return annals.State{}, false, &annals.Error{Op: "get state", Kind: annals.ErrInvalid, Err: errors.New("only a change replaces a state")}
	}
	return t.before(ctx)
}

// end returns what has been added. Add does nothing from then on.
func (t *Tx) end() []types.TransactWriteItem {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = true
	return t.items
}

// InTx is ability.Transactor. Nothing is written before fn returns nil. So reads within fn do not see its writes, its receipts assume
// that the transaction succeeds, and InTx returns the error of a conflict. Rows that are deleted without a condition, as those of deleted events of
// the layouts akka and esa, are removed after the commit. An error then is the Warning of the call: the next delete removes what is left.
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx *Tx, in annals.Store) error) error {
	return driver.Write(ctx, s.Store, annals.Call{Op: "transaction"}, func(ctx context.Context) error {
		tx := &Tx{}
		view := s.view(collector{s.engine, tx}, tx)
		t := driver.Transaction{Driver: view}
		if view.Capabilities().GuardsReads {
			t.Guard = view.guard
		}
		if err := driver.InTx(ctx, s.Store, t, func(ctx context.Context, in *driver.Store) error {
			defer tx.end()
			return fn(ctx, tx, inTx{in, view})
		}); err != nil {
			return err
		}
		stored := len(tx.writes)+len(tx.items) > 0
		if stored {
			if _, err := s.engine.transact(ctx, "", tx.writes, tx.items); err != nil {
				return err
			}
		}
		for _, do := range tx.after {
			err := do(ctx, s.engine)
			if err != nil && !stored {
				return err
			}
			driver.Count(ctx, annals.Result{Warning: err})
		}
		return nil
	})
}

// atomically is InTx without writes of the caller's own.
func (s *Store) atomically(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error {
	return s.InTx(ctx, func(ctx context.Context, _ *Tx, in annals.Store) error { return fn(ctx, in) })
}

// inTx is the store inside a transaction, with the functions of the layout.
type inTx struct {
	*driver.Store
	view view
}

// Execute is plan.Runner.
func (t inTx) Execute(ctx context.Context, f plan.Function) error {
	return execute(ctx, t.Store, t.view, f)
}

// collector is the executor within a transaction. It reads at once and collects the writes.
type collector struct {
	*engine
	tx *Tx
}

// Write is plan.Executor.
func (c collector) Write(ctx context.Context, w plan.Write) (plan.Outcome, error) {
	if w.Apart {
		return c.engine.Write(ctx, w)
	}
	if err := ctx.Err(); err != nil { // this call fails, so its write must not be sent with the others
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
func (c collector) DeleteAll(ctx context.Context, table string, keys []plan.Item) error {
	return c.Then(ctx, func(ctx context.Context, x plan.Executor) error { return x.DeleteAll(ctx, table, keys) })
}

// Then is plan.Executor.
func (c collector) Then(_ context.Context, do func(ctx context.Context, x plan.Executor) error) error {
	c.tx.mu.Lock()
	defer c.tx.mu.Unlock()
	c.tx.after = append(c.tx.after, do)
	return nil
}

// withItems is the engine, with the caller's own items in the transaction of each write.
type withItems struct {
	*engine
	items []types.TransactWriteItem
}

// Write is plan.Executor.
func (t withItems) Write(ctx context.Context, w plan.Write) (plan.Outcome, error) {
	if w.Apart {
		return t.engine.Write(ctx, w)
	}
	return t.engine.write(ctx, w, t.items)
}

// stale is the executor for a state write whose revision is already stale. It reads the current item and reports the outcome, writing
// nothing. Within a transaction, a write that was stored by an earlier try is collected all the same, so that the outcome of the
// transaction is that of all its writes.
type stale struct {
	plan.Executor
	engine *engine
	inTx   bool
}

// Write is plan.Executor.
func (l stale) Write(ctx context.Context, w plan.Write) (plan.Outcome, error) {
	old := make([]plan.Item, len(w.Ops))
	for i, op := range w.Ops {
		it, _, err := l.Get(ctx, plan.Get{Table: op.Table, Key: l.engine.tables[op.Table].KeyOf(op.Item())})
		if err != nil {
			return plan.Outcome{}, err
		}
		old[i] = standing(it)
	}
	out, err := only(plan.Judge([]plan.Write{w}, old, false, false, errStale))
	if l.inTx && out.Repeated {
		return l.Executor.Write(ctx, w)
	}
	return out, err
}

var errStale = errors.New("the state has been written since")
