package followtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/projection"
)

const resets = 3

// resets: the projection is reset again and again, to its beginning or to a time, while writers write, runners are killed, requests fail, answers
// are lost and entities are parked. An event is handed over as Rebuilding exactly when it had its effect before the last reset, and after a reset
// once.
func (w *world[T]) resets(ctx context.Context, g guarantee) error {
	w.guarantee, w.kills = g, 2
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	running, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, 4)
	var writing, handling sync.WaitGroup
	for i := range 2 {
		writing.Go(func() { errs[i] = w.write(ctx, i) })
		handling.Go(func() { errs[2+i] = w.keepRunning(running) })
	}
	err := w.reset(ctx)
	writing.Wait()
	if err == nil {
		err = w.handledSince(ctx)
	}
	stop()
	handling.Wait()
	return errors.Join(append(errs, err)...)
}

// reset resets the projection, the last time to its beginning.
func (w *world[T]) reset(ctx context.Context) error {
	control := projection.NewControl(newUnreliable(w.Store, w.Events, w.lies, w.random, oneIn), name)
	sure := func(do func(ctx context.Context) error) error {
		for try := 0; ; try++ {
			if err := do(ctx); err == nil || backoff.Wait(ctx, try) != nil {
				return err
			}
		}
	}
	for left := resets; left > 0; left-- {
		w.broken.Store(w.random.OneIn(2))
		<-time.After(lease/2 + w.random.Below(2*lease))
		if w.broken.Load() && w.random.OneIn(2) {
			w.broken.Store(false)
			if err := sure(func(ctx context.Context) error { return control.Retry(ctx) }); err != nil {
				return err
			}
			<-time.After(w.random.Below(2 * lease))
		}
		if err := sure(control.Pause); err != nil {
			return err
		}
		all, err := w.entries(ctx)
		if err != nil {
			return err
		}
		before, to := map[Entry]bool{}, annals.Offset{}
		for _, e := range all {
			before[Entry{ID: e.ID, SeqNr: e.SeqNr}] = true
		}
		if left > 1 && w.random.OneIn(2) {
			to.Time = time.Now().Add(-w.random.Below(4 * lease))
		}
		w.before.Store(&before)
		w.since = w.stamp.Load()
		if left == 1 {
			w.broken.Store(false)
		}
		if err := errors.Join(sure(func(ctx context.Context) error { return control.Reset(ctx, to) }), sure(control.Resume)); err != nil {
			return err
		}
	}
	return nil
}

// handledSince returns when all events have been handled since the last reset, with an error when one was so twice.
func (w *world[T]) handledSince(ctx context.Context) error {
	return until(ctx, func() (bool, error) {
		all, err := w.entries(ctx)
		times := map[Entry]int{}
		for _, e := range all {
			key := Entry{ID: e.ID, SeqNr: e.SeqNr}
			if e.Stamp <= w.since {
				continue
			}
			if times[key]++; times[key] > 1 {
				return false, fmt.Errorf("%q: number %d was handled twice after a reset", e.ID, e.SeqNr)
			}
		}
		for id, last := range w.last {
			for n := annals.SeqNr(1); n <= last; n++ {
				if times[Entry{ID: id, SeqNr: n}]+times[Entry{ID: id, SeqNr: -n}] == 0 && (w.guarantee != ofStates || n == last) {
					return false, err
				}
			}
		}
		return true, err
	})
}
