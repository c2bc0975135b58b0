// Package contexts has the values that hosts and stores keep in contexts for each other: the transaction that a function runs in, the
// callers of a batch, and its events. A store is an annals.Store.
package contexts

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

type txKey struct{}

// txMark says that a context is that of a function in a transaction of store.
type txMark struct {
	store any
	outer *txMark // of a transaction around it, of another store
	fault atomic.Pointer[error]
}

// ErrWithin is why a store that is within a transaction is not ability.Atomic.
var ErrWithin = errors.New("the store is within a transaction")

// WithTx returns the ctx for a function which runs in a transaction of store.
func WithTx(ctx context.Context, store any) context.Context {
	outer, _ := ctx.Value(txKey{}).(*txMark)
	return context.WithValue(ctx, txKey{}, &txMark{store: store, outer: outer})
}

// FailTx has the transactions that ctx comes from end with err, also when their functions return nil. It is for a host that has written a part of what
// belongs together.
func FailTx(ctx context.Context, err error) {
	mark, _ := ctx.Value(txKey{}).(*txMark)
	for ; mark != nil; mark = mark.outer {
		mark.fault.CompareAndSwap(nil, &err)
	}
}

// TxFault is the first error of FailTx for the innermost transaction of ctx.
func TxFault(ctx context.Context) error {
	if mark, _ := ctx.Value(txKey{}).(*txMark); mark != nil {
		if err := mark.fault.Load(); err != nil {
			return *err
		}
	}
	return nil
}

// InTx reports whether ctx comes from the function of a transaction of store, or of any store when store is nil. Stores are compared
// with ==.
func InTx(ctx context.Context, store any) bool {
	mark, _ := ctx.Value(txKey{}).(*txMark)
	for ; mark != nil; mark = mark.outer {
		if store == nil || mark.store == store {
			return true
		}
	}
	return false
}

// UndoAtEnd calls undo, in another goroutine, when ctx ends before open has been called. open reports whether undo has not been called and will
// not be; otherwise it waits for undo. It is for transactions that hold up others while a function of the user runs, which may not return
// although its context has ended: undo ends such a transaction, and makes the later uses of it fail. open may be called again.
func UndoAtEnd(ctx context.Context, undo func()) (open func() bool) {
	undone := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(undone)
		undo()
	})
	return sync.OnceValue(func() bool {
		if stop() {
			return true
		}
		<-undone
		return false
	})
}

type callersKey struct{}

// WithCallers returns ctx for a call that a host makes on behalf of several callers at once. callers are their contexts.
func WithCallers(ctx context.Context, callers []context.Context) context.Context {
	return context.WithValue(ctx, callersKey{}, callers)
}

// Callers returns the callers of WithCallers; nil when there is one.
func Callers(ctx context.Context) []context.Context {
	callers, _ := ctx.Value(callersKey{}).([]context.Context)
	return callers
}

// WithCaller returns ctx for a call that a host makes on behalf of one caller: it has the values of the caller's context, but not its end or its
// deadline, and no Callers, which may be those of a call around.
func WithCaller(ctx, caller context.Context) context.Context { return &withValues{ctx, caller, true} }

// WithValues is ctx with the values of another context, but not its end or its deadline.
func WithValues(ctx, values context.Context) context.Context { return &withValues{ctx, values, false} }

type withValues struct {
	context.Context
	values context.Context
	single bool // there are no Callers
}

// Value asks the Context first: the context package finds out in this way what ends it.
func (c *withValues) Value(key any) any {
	if c.single && key == (callersKey{}) {
		return nil
	}
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

type batchKey struct{}

// WithBatch returns ctx for the handling of events, which are []annals.Event.
func WithBatch(ctx context.Context, events any) context.Context {
	return context.WithValue(ctx, batchKey{}, events)
}

// Batch returns the events of WithBatch; nil when there are none.
func Batch(ctx context.Context) any { return ctx.Value(batchKey{}) }
