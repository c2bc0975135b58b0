package calendar_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	. "github.com/annals-go/annals/internal/calendar"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/random"
)

// CatchUp hands over what is due, and nothing else, also when another process has begun to do so.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	inWorld(t, random.New(t), func(w *world) {
		var got []string
		fire := func(_ context.Context, ts []Timer) error {
			for _, x := range ts {
				got = append(got, x.Name)
			}
			return nil
		}
		now := time.Now()
		add := func(name string, after time.Duration) {
			if err := w.calendar(w.store).Add(w.Context(), []Timer{{ID: "T|1", Name: name, Due: now.Add(after)}}); err != nil {
				w.Fatal(err)
			}
		}
		want := func(names ...string) {
			w.Helper()
			if err := w.calendar(w.store).CatchUp(w.Context(), fire); err != nil || !slices.Equal(got, names) {
				w.Errorf("%q were fired, %v, want %q", got, err, names)
			}
		}
		want()
		add("now", -1)
		add("hour", time.Hour)
		want("now")
		time.Sleep(time.Until(now.Add(time.Hour - 1)))
		want("now")
		time.Sleep(1 + w.precision)
		failed := errors.New("on purpose")
		ctx, stop := context.WithCancel(w.Context())
		ended := make(chan error)
		go func() { ended <- w.calendar(w.store).Run(ctx, func(context.Context, []Timer) error { return failed }) }()
		synctest.Wait()
		caught := make(chan error)
		go func() { caught <- w.calendar(w.store).CatchUp(w.Context(), fire) }()
		time.Sleep(time.Minute)
		stop()
		if err := <-ended; err != nil && !errors.Is(err, failed) {
			w.Error(err)
		}
		if err := <-caught; err != nil || !slices.Equal(got, []string{"now", "hour"}) {
			w.Errorf("%q were fired, %v", got, err)
		}
		add("late", 0)
		ended2, cancel := context.WithCancel(w.Context())
		cancel()
		if err := w.calendar(w.store).CatchUp(ended2, fire); !errors.Is(err, context.Canceled) && !errors.Is(err, annals.ErrUnavailable) {
			w.Errorf("after the end of the context: %v", err)
		}
	})
}

// CatchUp does not look what is left while timers are being handed over.
func TestCatchUpWaitsForFire(t *testing.T) {
	t.Parallel()
	inWorld(t, random.New(t), func(w *world) {
		w.precision = time.Minute
		if err := w.calendar(w.store).Add(w.Context(), []Timer{{ID: "T|1", Due: time.Now().Add(-time.Hour)}}); err != nil {
			t.Fatal(err)
		}
		var reads atomic.Int64
		counted := &faulty.Store{Store: w.store, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
			if c.ID.Type() == "annals.calendar" && !c.Writes {
				reads.Add(1)
			}
			return run()
		}}
		fired := 0
		err := w.calendar(counted).CatchUp(w.Context(), func(context.Context, []Timer) error {
			time.Sleep(time.Hour)
			fired++
			return nil
		})
		if n := reads.Load(); err != nil || fired != 1 || n > 20 {
			t.Errorf("%d batches were fired, and the record was read %d times, %v", fired, n, err)
		}
	})
}
