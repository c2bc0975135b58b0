package dynamostore

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/annals-go/annals"
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
	done   atomic.Bool
}

// Add puts the caller's own write into the transaction, which takes 100 in all, the store's included. An item's condition
// that fails makes the whole ErrConstraint.
func (t *Tx) Add(item types.TransactWriteItem) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.items = append(t.items, item)
}

type txKey struct{ s *Store }

func insideTx(ctx context.Context, s *Store) bool { return ctx.Value(txKey{s}) != nil }

// InTx is annals.Transactor. Nothing is sent before fn returns nil: reads inside fn do not see its writes, receipts are
// those of a success to come, and a conflict shows when InTx returns.
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx *Tx, in annals.Store) error) error {
	return s.view().call(ctx, annals.Call{Op: "transaction"}, true, func(ctx context.Context) error {
		if err := ctx.Err(); err != nil {
			return stopped(err)
		}
		tx := &Tx{}
		err := fn(context.WithValue(ctx, txKey{s}, true), tx, inside{view: view{s: s, x: collector{s.engine, tx}, tx: tx}})
		tx.done.Store(true)
		if err != nil {
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

// inside is the store within a transaction.
type inside struct {
	annals.Unsupported
	view
}

func (in inside) Journal() annals.Journal           { return in.journal() }
func (in inside) Snapshots() annals.SnapshotStore   { return in.snapshots() }
func (in inside) States() annals.StateStore         { return in.states() }
func (in inside) Query() annals.Query               { return in.query() }
func (in inside) Capabilities() annals.Capabilities { return in.s.Capabilities() }

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
