package hosttest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/calendar"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/lease"
)

// silent is for failures on purpose.
var silent = slog.New(slog.DiscardHandler)

// Timers adds timers to calendars on here and on there, two stores that are open on the same data, and hands them over in both, one of which
// stops meanwhile. Every timer must come, none too early. A lease must go from one to the other with a higher fence.
func Timers(t *testing.T, here, there annals.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var ends sync.WaitGroup
	defer ends.Wait()
	handOver(ctx, t, &ends, here, there)

	var calendars []*calendar.Calendar
	for _, s := range []annals.Store{here, there} {
		c, err := calendar.New(s, "timers/of|the test", calendar.Options{Precision: 20 * time.Millisecond, Lease: 300 * time.Millisecond, Logger: silent})
		if err != nil {
			t.Fatal(err)
		}
		calendars = append(calendars, c)
	}
	const adders, each = 3, 12
	fired := make(chan calendar.Timer)
	first, stop := context.WithCancel(ctx)
	defer stop()
	for i, c := range calendars {
		running := ctx
		if i == 0 {
			running = first
		}
		ends.Go(func() {
			err := c.Run(running, func(ctx context.Context, ts []calendar.Timer) error {
				for _, x := range ts {
					if time.Now().Before(x.Due) {
						t.Errorf("timer %s came at %v, before %v", x.Name, time.Now(), x.Due)
					}
					select {
					case fired <- x:
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	begun := time.Now()
	var adding sync.WaitGroup
	for i := range adders {
		adding.Go(func() {
			for n := range each {
				after := time.Duration(n) * 130 * time.Millisecond // up to 1.4 s: the farthest are moved once
				if n%5 == 0 {
					after = -time.Hour
				}
				x := calendar.Timer{ID: "Account|1", Name: fmt.Sprint(i, "/", n), Due: begun.Add(after)}
				if err := calendars[i%2].Add(ctx, []calendar.Timer{x}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	names := map[string]bool{}
	for len(names) < adders*each {
		select {
		case x := <-fired:
			names[x.Name] = true
		case <-ctx.Done():
			t.Fatalf("%d timers came, want %d", len(names), adders*each)
		}
		if len(names) > adders*each/4 {
			stop()
		}
	}
	adding.Wait()
	cancel()
}

// handOver takes a lease from a process that is cut off from the store, and from one that ends.
func handOver(ctx context.Context, t *testing.T, ends *sync.WaitGroup, here, there annals.Store) {
	t.Helper()
	fences := make(chan annals.SeqNr)
	cut := make(chan struct{})
	link := &faulty.Store{Store: here, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
		select {
		case <-cut:
			return faulty.Failed(c)
		default:
			return run()
		}
	}}
	first, stop := context.WithCancel(ctx)
	defer stop()
	second, end := context.WithCancel(ctx)
	defer end()
	run := func(ctx context.Context, s annals.Store, fn func(context.Context) error) {
		ends.Go(func() {
			err := lease.Run(ctx, s, "lease/of|the test", lease.Options{Lease: 300 * time.Millisecond, Logger: silent}, func(ctx context.Context, fence annals.SeqNr) error {
				select {
				case fences <- fence:
				case <-ctx.Done():
				}
				return fn(ctx)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	work := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	run(first, link, work)
	next := func() annals.SeqNr {
		select {
		case fence := <-fences:
			return fence
		case <-ctx.Done():
			t.Fatal("no process got the lease")
			return 0
		}
	}
	held := next()
	run(second, there, work)
	close(cut)
	taken := next()
	stop()
	run(ctx, here, func(context.Context) error { return nil })
	end()
	if given := next(); held >= taken || taken >= given {
		t.Errorf("a lease had the fences %d, %d and %d", held, taken, given)
	}
}

// NoTimers demands that a store without durable states is refused.
func NoTimers(t *testing.T, s annals.Store) {
	t.Helper()
	_, err := calendar.New(s, "c", calendar.Options{})
	if !errors.Is(err, annals.ErrUnsupported) {
		t.Errorf("a calendar: %v", err)
	}
	err = lease.Run(t.Context(), s, "l", lease.Options{}, func(context.Context, annals.SeqNr) error { return nil })
	if !errors.Is(err, annals.ErrUnsupported) {
		t.Errorf("a lease: %v", err)
	}
}
