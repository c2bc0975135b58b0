package hosttest

import (
	"context"
	"runtime"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
)

func TestRules(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	Rules(t, s, s)
}

// loose makes the calls of a transaction one by one, with a pause before each write.
type loose struct{ *memstore.Store }

func (s loose) Atomically(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error {
	return fn(ctx, &faulty.Store{Store: s.Store, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
		for range 100 {
			if c.Writes {
				runtime.Gosched()
			}
		}
		return run()
	}})
}

// Without transactions both doctors leave.
func TestRulesWithoutTransactions(t *testing.T) {
	t.Parallel()
	s := loose{memstore.New()}
	if err := doctors(t.Context(), []annals.Store{s, s}, 1000); err == nil {
		t.Error("no round ended with both doctors away")
	}
}
