package pgstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/annals-go/annals"
)

// view is a store seen from outside, or from inside a transaction.
type view struct {
	s  *Store
	tx *transaction // nil outside
}

// reader is where v reads: the caller's pool, or the transaction.
func (v view) reader() querier {
	if v.tx != nil {
		return v.tx.tx
	}
	return v.s.reads
}

// writer is where v writes alone: the store's own pool, or the transaction.
func (v view) writer() querier {
	if v.tx != nil {
		return v.tx.tx
	}
	return v.s.write
}

// call is one operation under way.
type call struct {
	annals.Call
	v      view
	ctx    context.Context
	start  time.Time
	result annals.Result
	flight *sync.WaitGroup // what Close waits for
}

var (
	errTxDone  = errors.New("the transaction has ended")
	errOutside = errors.New("the outer store was written to with the context of a transaction: use the store that InTx handed over")
)

// A call within a transaction is a savepoint.
const (
	savepoint = "SAVEPOINT annals"
	undo      = "ROLLBACK TO SAVEPOINT annals"
	release   = "RELEASE SAVEPOINT annals"
)

// begin opens an operation that reads. The caller ends it when the error is nil. A read of the outer store within a transaction sees
// what was there before: it takes a connection of the caller's pool, which the transaction does not hold.
func (v view) begin(ctx context.Context, op string, id annals.PersistenceID, events int) (*call, error) {
	return v.enter(ctx, op, id, events, &v.s.reading)
}

// beginWrite is begin for an operation that writes. Within a transaction a write of the outer store could wait for that transaction,
// which waits for the write.
func (v view) beginWrite(ctx context.Context, op string, id annals.PersistenceID, events int) (*call, error) {
	if v.tx == nil && annals.ContextInTx(ctx, v.s) {
		return nil, &annals.Error{Op: op, ID: id, Kind: annals.ErrInvalid, Err: errOutside}
	}
	return v.enter(ctx, op, id, events, &v.s.calls)
}

func (v view) enter(ctx context.Context, op string, id annals.PersistenceID, events int, flight *sync.WaitGroup) (*call, error) {
	refuse := func(kind, err error) (*call, error) {
		return nil, &annals.Error{Op: op, ID: id, Kind: kind, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return refuse(annals.ErrUnavailable, err)
	}
	if v.tx != nil {
		if v.tx.done.Load() {
			return refuse(annals.ErrClosed, errTxDone)
		}
		ctx = within{v.tx.ctx, ctx}
		if _, err := v.tx.tx.Exec(ctx, savepoint); err != nil {
			return nil, fault(op, id, err)
		}
	} else {
		v.s.mu.Lock()
		if v.s.closed {
			v.s.mu.Unlock()
			return refuse(annals.ErrClosed, nil)
		}
		flight.Add(1)
		v.s.mu.Unlock()
	}
	c := &call{Call: annals.Call{Op: op, Store: "postgres", ID: id, Events: events}, v: v, ctx: ctx, flight: flight}
	if o := v.s.options.Observer; o != nil {
		c.start = time.Now()
		c.ctx = o.Start(ctx, c.Call)
	}
	return c, nil
}

// end closes the operation and makes *err an error of the contracts.
func (c *call) end(err *error) {
	if tx := c.v.tx; tx != nil {
		if *err != nil {
			_, _ = tx.tx.Exec(c.ctx, undo+"; "+release)
		} else {
			_, *err = tx.tx.Exec(c.ctx, release)
		}
	}
	if *err != nil {
		*err = fault(c.Op, c.ID, *err)
	}
	if o := c.v.s.options.Observer; o != nil {
		c.result.Duration, c.result.Err = time.Since(c.start), *err
		o.End(c.ctx, c.Call, c.result)
	}
	if c.v.tx == nil {
		c.flight.Done()
	}
}
