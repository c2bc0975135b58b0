package pgstore

import (
	"context"
	"errors"
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
}

var (
	errTxDone  = errors.New("the transaction has ended")
	errOutside = errors.New("the outer store was called with the context of a transaction: use the store that InTx handed over")
)

// begin opens an operation. The caller ends it when the error is nil.
func (v view) begin(ctx context.Context, op string, id annals.PersistenceID, events int) (*call, error) {
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
	} else {
		if ctx.Value(inside{v.s}) != nil {
			return refuse(annals.ErrInvalid, errOutside)
		}
		v.s.mu.Lock()
		if v.s.closed {
			v.s.mu.Unlock()
			return refuse(annals.ErrClosed, nil)
		}
		v.s.calls.Add(1)
		v.s.mu.Unlock()
	}
	c := &call{Call: annals.Call{Op: op, Store: "postgres", ID: id, Events: events}, v: v, ctx: ctx}
	if o := v.s.options.Observer; o != nil {
		c.start = time.Now()
		c.ctx = o.Start(ctx, c.Call)
	}
	return c, nil
}

// end closes the operation and makes *err an error of the contracts.
func (c *call) end(err *error) {
	if *err != nil {
		*err = fault(c.Op, c.ID, *err)
	}
	if o := c.v.s.options.Observer; o != nil {
		c.result.Duration, c.result.Err = time.Since(c.start), *err
		o.End(c.ctx, c.Call, c.result)
	}
	if c.v.tx == nil {
		c.v.s.calls.Done()
	}
}
