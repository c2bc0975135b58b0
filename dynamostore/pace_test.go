package dynamostore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A partition that takes 50 requests a second, asked by twenty at once: nearly all of it is used, and few are turned away.
func TestPacerFindsTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit, warm, taken = 50, 20 * time.Second, 60 * time.Second
		var (
			p              pacer
			mu             sync.Mutex
			left           = float64(limit)
			at             = time.Now()
			passed, turned int
		)
		admit := func() bool {
			mu.Lock()
			defer mu.Unlock()
			now := time.Now()
			left, at = min(left+limit*now.Sub(at).Seconds(), limit), now
			if left <= 0 {
				turned++
				return false
			}
			left--
			passed++
			return true
		}
		ctx, stop := context.WithCancel(t.Context())
		keys := []string{"key"}
		var senders sync.WaitGroup
		for range 20 {
			senders.Go(func() {
				for pause(ctx, time.Millisecond) == nil { // the way there and back
					if p.busy() && p.wait(ctx, keys) != nil {
						return
					}
					if !admit() {
						p.slow(keys)
					}
				}
			})
		}
		_ = pause(t.Context(), warm)
		mu.Lock()
		before, refused := passed, turned
		mu.Unlock()
		_ = pause(t.Context(), taken)
		mu.Lock()
		events, throttles := passed-before, turned-refused
		mu.Unlock()
		stop()
		senders.Wait()
		if share := float64(events) / (limit * taken.Seconds()); share < 0.97 {
			t.Errorf("%.3f of the limit was used", share)
		}
		if ratio := float64(throttles) / float64(events); ratio > 0.1 {
			t.Errorf("%.3f requests were turned away for each that passed", ratio)
		}
	})
}

// Other keys are not held up, and a key that has been left alone is free again.
func TestPacerLanes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p pacer
		begun := time.Now()
		for range 5 {
			p.slow([]string{"hot"})
			_ = pause(t.Context(), laneQuiet)
		}
		waited := func(key string) time.Duration {
			before := time.Now()
			for range 50 {
				if err := p.wait(t.Context(), []string{key}); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(before)
		}
		if d := waited("cold"); d != 0 {
			t.Errorf("a key that was never throttled waited %v", d)
		}
		if d := waited("hot"); d < 100*time.Millisecond {
			t.Errorf("fifty requests to the throttled key waited %v", d)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.wait(ctx, []string{"hot"}); err == nil {
			t.Error("a wait did not end with its context")
		}
		_ = pause(t.Context(), laneLife+time.Second)
		if d := waited("hot"); d != 0 || p.busy() {
			t.Errorf("%v after the throttle, the key still waited %v", time.Since(begun), d)
		}
		for i := range lanesKept {
			p.slow([]string{fmt.Sprint(i)})
		}
		_ = pause(t.Context(), laneLife+time.Second)
		p.slow([]string{"one more"})
		if n := p.lanes.Load(); n != 1 || len(p.byKey) != 1 {
			t.Errorf("%d lanes are kept", n)
		}
	})
}
