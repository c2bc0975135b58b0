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

// reconnects bounds how often the store tries to connect while that fails, however many calls ask for a connection: each attempt
// costs a server that is starting or full a process. Behind a failure the next attempt is made after a pause, which grows.
// Calls in between fail at once, with the cause.
type reconnects struct {
	mu       sync.Mutex
	failures int
	cause    error     // of the last failure; nil when the last attempt succeeded
	next     time.Time // no attempt before
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
	r.failures++ // until it is known to be none
	r.pause()
	return nil
}

func (r *reconnects) succeeded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures, r.cause = 0, nil
}

// failed takes note of err unless it is nil.
func (r *reconnects) failed(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cause = err
	r.pause()
}

func (r *reconnects) pause() { r.next = time.Now().Add(backoff.Delay(r.failures)) }

// traced has r hear of attempts that fail, beside the tracer of the user's.
func (r *reconnects) traced(users pgx.QueryTracer) pgx.QueryTracer {
	if users == nil {
		return connectTracer{r}
	}
	return multitracer.New(users, connectTracer{r})
}

// connectTracer is a pgx.ConnectTracer. The driver takes one only as a pgx.QueryTracer.
type connectTracer struct{ r *reconnects }

func (connectTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (connectTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (connectTracer) TraceConnectStart(ctx context.Context, _ pgx.TraceConnectStartData) context.Context {
	return ctx
}

// TraceConnectEnd counts a failure that is not the caller's leaving. What succeeds has still to be set up.
func (t connectTracer) TraceConnectEnd(ctx context.Context, d pgx.TraceConnectEndData) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.r.failed(d.Err)
	}
}
