package entity

import (
	"context"
	"time"

	"github.com/annals-go/annals"
)

// observe tells the Observer, if there is one, about a call to the store.
func (r *Runtime[C, S, R]) observe(ctx context.Context, op string, pid annals.PersistenceID, events int, fn func(ctx context.Context) error) error {
	o := r.o.Observer
	if o == nil {
		return fn(ctx)
	}
	call := annals.Call{Op: op, Store: "entity", ID: pid, Events: events}
	start := time.Now()
	ctx = o.Start(ctx, call)
	err := fn(ctx)
	o.End(ctx, call, annals.Result{Duration: time.Since(start), Events: events, Err: err})
	return err
}
