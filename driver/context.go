package driver

import (
	"context"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/contexts"
)

// ContextWithTx returns the ctx for a function of the user which runs in a transaction of s, the annals.Store that users hold. Stores and
// hosts recognise by it that a write to s would wait for that transaction, which waits for the write.
func ContextWithTx(ctx context.Context, s annals.Store) context.Context {
	return contexts.WithTx(ctx, s)
}

// ContextInTx reports whether ctx comes from the function of a transaction of s. Stores are compared with ==.
func ContextInTx(ctx context.Context, s annals.Store) bool { return contexts.InTx(ctx, s) }

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
