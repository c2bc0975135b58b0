package aggregate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/internal/contexts"
)

// recorder is an Observer that records its calls.
type recorder struct {
	mu    sync.Mutex
	calls []string
	asked []string // "ask"; a snapshot can end before it and after it
}

type callerKey struct{}

func (r *recorder) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }

func (r *recorder) End(ctx context.Context, c annals.Call, res annals.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to := &r.calls
	if c.Op == "ask" {
		to = &r.asked
	}
	*to = append(*to, fmt.Sprintf("%s %s %s for %v: %d %d events, %d bytes, %d retries, %t", c.Store, c.Op, c.ID, ctx.Value(callerKey{}),
		c.Events, res.Events, res.Bytes, res.Retries, res.Err != nil))
}

// single is an Observer of calls for one caller.
type single struct{ t *testing.T }

func (s single) Start(ctx context.Context, c annals.Call) context.Context {
	if all := annals.Callers(ctx); all != nil || ctx.Value(callerKey{}) != "ann" {
		s.t.Errorf("%s: %d callers, value %v", c.Op, len(all), ctx.Value(callerKey{}))
	}
	return ctx
}

func (s single) End(context.Context, annals.Call, annals.Result) {}

// A command that is sent with the context of a call for several callers is that of one caller.
func TestOneCallerWithinACallForSeveral(t *testing.T) {
	t.Parallel()
	accounts, err := aggregate.New(newFlaky(), account, aggregate.Options{Observer: single{t}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithValue(t.Context(), callerKey{}, "ann")
	if _, err := accounts.Ask(contexts.WithCallers(ctx, []context.Context{ctx, ctx}), "a", 5); err != nil {
		t.Error(err)
	}
}

// The Observer is told once of each operation, with its counts and the caller's values.
func TestObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, r := newFlaky(), &recorder{}
		b := account
		b.SnapshotEvery = 2
		accounts, err := aggregate.New(s, b, aggregate.Options{Observer: r, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.WithValue(t.Context(), callerKey{}, "ann")
		tries := 0
		s.write = func(_ annals.WriteID, next func() error) error {
			if tries++; tries == 1 {
				return &annals.Error{Op: "test", Kind: annals.ErrUnavailable}
			}
			return next()
		}
		for _, amount := range []int{50, 5} {
			if _, err := accounts.Ask(ctx, "a", amount); err != nil {
				t.Error(err)
			}
		}
		if err := accounts.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := accounts.Ask(ctx, "a", -100); !errors.Is(err, errPoor) {
			t.Error(err)
		}
		want := []string{
			"aggregate load Account|a for ann: 0 0 events, 0 bytes, 0 retries, false",
			"aggregate write Account|a for ann: 1 1 events, 2 bytes, 1 retries, false",
			"aggregate load Account|a for ann: 0 1 events, 2 bytes, 0 retries, false",
			"aggregate write Account|a for ann: 1 1 events, 1 bytes, 0 retries, false",
			"aggregate snapshot Account|a for ann: 0 0 events, 2 bytes, 0 retries, false",
			"aggregate load Account|a for ann: 0 0 events, 2 bytes, 0 retries, false",
		}
		if !slices.Equal(r.calls, want) {
			t.Errorf("told %q, want %q", r.calls, want)
		}
		want = []string{
			"aggregate ask Account|a for ann: 0 0 events, 0 bytes, 0 retries, false", "aggregate ask Account|a for ann: 0 0 events, 0 bytes, 0 retries, false",
			"aggregate ask Account|a for ann: 0 0 events, 0 bytes, 0 retries, true",
		}
		if !slices.Equal(r.asked, want) {
			t.Errorf("told %q, want %q", r.asked, want)
		}
	})
}
