package main

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/examples/orders/stock"
)

// traces is an Observer that knows which trace every write belongs to. With OpenTelemetry, Start would begin a span with a link to
// the span of each caller, and End would end it.
type traces struct {
	mu     sync.Mutex
	linked map[string]int // by trace: writes that name it
}

func newTraces() *traces { return &traces{linked: map[string]int{}} }

type traceKey struct{}

// withTrace is ctx for a caller in a trace.
func withTrace(ctx context.Context, trace string) context.Context {
	return context.WithValue(ctx, traceKey{}, trace)
}

// Start implements annals.Observer. A write of a runtime may answer many callers: their contexts are in annals.Callers.
func (t *traces) Start(ctx context.Context, c annals.Call) context.Context {
	if c.Op != "put state" {
		return ctx
	}
	callers := annals.Callers(ctx)
	if callers == nil {
		callers = []context.Context{ctx}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, caller := range callers {
		if trace, ok := caller.Value(traceKey{}).(string); ok {
			t.linked[trace]++
		}
	}
	return ctx
}

// End implements annals.Observer.
func (t *traces) End(context.Context, annals.Call, annals.Result) {}

// showTraces sends many commands to one stock at once. They share a few writes, and every caller's trace is linked to its write.
func (s *shop) showTraces(ctx context.Context, prefix string, out io.Writer) error {
	const callers = 20
	errs := make(chan error, callers)
	for i := range callers {
		go func() {
			_, err := s.stocks.Ask(withTrace(ctx, fmt.Sprint(prefix, i)), prefix+"hot", stock.Add(1))
			errs <- err
		}()
	}
	for range callers {
		if err := <-errs; err != nil {
			return err
		}
	}
	linked := 0
	s.traces.mu.Lock()
	defer s.traces.mu.Unlock()
	for i := range callers {
		if s.traces.linked[fmt.Sprint(prefix, i)] > 0 {
			linked++
		}
	}
	fmt.Fprintf(out, "of %d callers at once, %d find the write that stored their command\n", callers, linked)
	return nil
}
