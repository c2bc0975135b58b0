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

	mu   sync.Mutex
	ctx  context.Context // nil before the first write
	made time.Time       // when ctx was
}

// context returns a context that ends after timeout, or up to an eighth of it earlier, and the time at which it was called.
func (d *deadlines) context() (context.Context, time.Time) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx == nil || now.Sub(d.made) >= d.timeout/8 {
		ctx, cancel := context.WithTimeout(d.base, d.timeout)
		context.AfterFunc(ctx, cancel)
		d.ctx, d.made = ctx, now
	}
	return d.ctx, now
}
