// Package backoff computes how long to wait before the next try.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	first   = time.Millisecond
	longest = 500 * time.Millisecond
)

// Delay is a random time below a bound that doubles with each try, from 1 ms at try 0 up to 500 ms. It is random so that callers that
// failed at the same time do not try again at the same time.
func Delay(try int) time.Duration {
	bound := longest
	if try < 10 {
		bound = min(first<<max(try, 0), longest)
	}
	return rand.N(bound) + 1
}

// Seldom reports whether the failure number n is logged: the 1st, 2nd, 4th, 8th …
func Seldom(n int) bool { return n&(n-1) == 0 }

// Wait waits for Delay(try). When ctx ends first it returns ctx's error.
func Wait(ctx context.Context, try int) error { return Sleep(ctx, Delay(try)) }

// Sleep waits for d. When ctx ends first, or has ended, it returns ctx's error.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
