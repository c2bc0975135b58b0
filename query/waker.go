package query

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/backoff"
)

// between is the least time from the end of a look to the next one: all signals in between share that.
const between = 20 * time.Millisecond

// A query that polls looks so often that it finds expected new things each time, as far as those of late tell, but not more often than every pollBusy,
// and at least every Options.Poll.
const (
	pollBusy = time.Second
	expected = 2
)

// waker says when to look at the store again.
type waker struct {
	watcher ability.Watcher // nil when the store is none
	filter  annals.Filter
	poll    time.Duration
	onRetry func(error, int)

	signals <-chan annals.SliceRange // nil when nothing is watched
	ended   time.Time                // when the last look ended; zero before the first
	found   int                      // so much new since then
	news    float64                  // how much new came in a second of late
	tries   int                      // that failed since something worked
	worked  bool                     // a read has, so the query is right
}

func newWaker(s annals.Store, f annals.Filter, o Options) waker {
	w, _ := ability.Of[ability.Watcher](s)
	if o.Current {
		w = nil // it does not wait
	}
	return waker{watcher: w, filter: f, poll: o.Poll, onRetry: o.OnRetry}
}

// done notes that a look has ended. The last four or so count for news.
func (w *waker) done() {
	now, since := time.Now(), time.Second
	if !w.ended.IsZero() {
		since = max(now.Sub(w.ended), between)
	}
	w.news = (3*w.news + float64(w.found)/since.Seconds()) / 4
	w.ended, w.found = now, 0
}

// pause is the time between two looks where nothing is signalled.
func (w *waker) pause() time.Duration {
	if w.signals != nil || w.news*w.poll.Seconds() <= expected {
		return w.poll
	}
	return min(w.poll, max(pollBusy, time.Duration(expected/w.news*float64(time.Second))))
}

// wait returns when it is time for the next look: at once the first time, then after a signal, at the next poll, or at latest if that is not
// zero and earlier. After a signal, written is where it says that something is new, otherwise all slices. With ignoring it takes no notice of
// signals. After an error, the next call waits for the rest of the time only.
func (w *waker) wait(ctx context.Context, latest time.Time, ignoring bool) (written annals.SliceRange, err error) {
	w.watch(ctx)
	if w.ended.IsZero() {
		return written, ctx.Err()
	}
	poll := w.pause()
	at := w.ended.Add(poll + rand.N(poll/5+1) - poll/10)
	if !latest.IsZero() && latest.Before(at) {
		at = latest
	}
	if err := backoff.Sleep(ctx, between-time.Since(w.ended)); err != nil { // before a signal is received, so that none is lost here
		return written, err
	}
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	signals := w.signals
	if ignoring {
		signals = nil
	}
	select {
	case <-ctx.Done():
	case <-timer.C:
	case signal, ok := <-signals:
		if ok {
			return signal, nil
		}
		w.signals = nil // the context of an earlier call has ended, or the store was closed
		w.watch(ctx)
	}
	return written, ctx.Err()
}

// watch opens a watch if there is none, before a look, so that a write after the look is signalled.
func (w *waker) watch(ctx context.Context) {
	if w.watcher == nil || w.signals != nil || ctx.Err() != nil {
		return
	}
	if signals, err := w.watcher.Watch(ctx, w.filter); err == nil { // otherwise it polls, and tries again at the next wait
		w.signals = signals
	}
}

// succeeded notes that a read has worked.
func (w *waker) succeeded() { w.tries, w.worked = 0, true }

// failed waits before a read is tried again after err, or returns the error with which the query ends. A store also says ErrInvalid for what
// its server refuses for a while.
func (w *waker) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, annals.ErrInvalid) && !w.worked || errors.Is(err, annals.ErrUnsupported) || errors.Is(err, annals.ErrClosed) {
		return err
	}
	w.onRetry(err, w.tries)
	w.tries++
	return backoff.Wait(ctx, w.tries+3)
}

// keepLooking calls look, which reads to the end, until look says that the query ends. It returns the error with which the query ends.
func (w *waker) keepLooking(ctx context.Context, look func() (ended bool, err error)) error {
	for ended := false; !ended; w.done() {
		_, err := w.wait(ctx, time.Time{}, false)
		if err == nil {
			err = w.repeat(ctx, func() (err error) {
				ended, err = look()
				return err
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// repeat reads until that works, or returns the error with which the query ends.
func (w *waker) repeat(ctx context.Context, read func() error) error {
	for {
		err := read()
		if err == nil {
			w.succeeded()
			return nil
		}
		if err := w.failed(ctx, err); err != nil {
			return err
		}
	}
}
