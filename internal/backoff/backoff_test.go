package backoff_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals/internal/backoff"
)

func TestDelayIsBounded(t *testing.T) {
	t.Parallel()
	for try, bound := range map[int]time.Duration{
		-1: time.Millisecond, 0: time.Millisecond, 3: 8 * time.Millisecond, 9: 500 * time.Millisecond, 1 << 40: 500 * time.Millisecond,
	} {
		for range 100 {
			if d := backoff.Delay(try); d <= 0 || d > bound {
				t.Errorf("try %d waits %v, want at most %v", try, d, bound)
			}
		}
	}
}

func TestWaitHonoursItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := backoff.Wait(t.Context(), 20); err != nil || time.Since(start) == 0 {
			t.Errorf("waited %v, %v", time.Since(start), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := backoff.Wait(ctx, 20); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled wait returned %v", err)
		}
	})
}
