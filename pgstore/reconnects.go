package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"

	"github.com/annals-go/annals/internal/backoff"
)

// reconnects limits how often the store tries to connect while connecting fails, however many calls ask for a connection: each
// attempt costs a process on a server that may be starting or full. After a failure the next attempt is made after a pause, which
// grows. Calls during the pause fail at once, with the cause.
type reconnects struct {
	full func() // called when the server refuses a connection because it has too many; may be nil

	mu       sync.Mutex
	failures int
	cause    error     // of the last failure; nil when the last attempt succeeded
	next     time.Time // the earliest time of the next attempt
}

// allow returns nil when an attempt may be made.
func (r *reconnects) allow() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cause == nil {
		return nil
	}
	if time.Now().Before(r.next) {
		return fmt.Errorf("connecting failed a moment ago: %w", r.cause)
	}
	r.failures++ // until it succeeds
	r.pause()
	return nil
}

func (r *reconnects) succeeded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures, r.cause = 0, nil
}

// failed notes a failure, unless err is nil.
func (r *reconnects) failed(err error) {
	if err == nil {
		return
	}
	if code(err) == tooManyConnections && r.full != nil {
		r.full()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cause = err
	r.pause()
}

func (r *reconnects) pause() { r.next = time.Now().Add(backoff.Delay(r.failures)) }

// traced is a tracer that reports failed attempts to r, in addition to the user's tracer.
func (r *reconnects) traced(users pgx.QueryTracer) pgx.QueryTracer {
	t := connectTracer{multitracer.New(), r}
	if users != nil {
		t.Tracer = multitracer.New(users)
	}
	return t
}

// connectTracer is a pgx.ConnectTracer. pgx accepts one only as a pgx.QueryTracer.
type connectTracer struct {
	*multitracer.Tracer
	r *reconnects
}

// TraceConnectEnd counts a failure, unless the caller's context was cancelled. A success is counted later, when the connection is
// set up.
func (t connectTracer) TraceConnectEnd(ctx context.Context, d pgx.TraceConnectEndData) {
	t.Tracer.TraceConnectEnd(ctx, d)
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.r.failed(d.Err)
	}
}
