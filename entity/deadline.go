package entity

import (
	"context"
	"sync"
	"time"
)

// deadlines makes the contexts of writes. All writes that begin within an eighth of timeout share one context, because setting and
// stopping a timer for each write would cost more than everything else that the runtime does for a command.
type deadlines struct {
	base    context.Context // of the runtime
	timeout time.Duration

	mu  sync.Mutex
	ctx context.Context // nil: the next write makes one
}

// context ends after timeout, or up to an eighth of it earlier.
func (d *deadlines) context() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx == nil {
		ctx, cancel := context.WithTimeout(d.base, d.timeout)
		context.AfterFunc(ctx, cancel)
		time.AfterFunc(d.timeout/8, d.retire)
		d.ctx = ctx
	}
	return d.ctx
}

// retire has the next write make a context of its own.
func (d *deadlines) retire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ctx = nil
}
