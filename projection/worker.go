package projection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/panics"
	"github.com/annals-go/annals/query"
)

// quiet is how often a worker without events saves how far it has come.
const quiet = 10 * time.Second

// mostBreaks is how often the step of a single event fails, while the store works, until that is the failure of the event.
const mostBreaks = 8

// worker handles the events of one range, in one goroutine.
type worker struct {
	r        *Runner
	progress annals.Progress // of every step: the projection, the slices and the epoch
	caughtUp func()          // called once, when everything that was visible when the worker began has been handled; may be nil

	parked  map[int]parkedEntities // by slice
	ordered []ParkedEntity         // of them, to be retried
	orders  int64                  // that have been read, of Runner.orders

	size    int           // of batches
	tries   int           // to go on since something was saved
	failing annals.Offset // the event that has failed last
	failed  int           // how often it has
	broken  annals.Offset // the event whose step, without others, has failed last while the store works
	breaks  int           // how often it has
	through annals.Offset // how far everything has been handled, saved or not
	saved   annals.Offset // the Through that was saved last
	savedAt time.Time
}

func newWorker(r *Runner, slices annals.SliceRange, epoch int64, caughtUp func()) *worker {
	return &worker{r: r, progress: annals.Progress{Projection: r.name, Slices: slices, Epoch: epoch}, caughtUp: caughtUp, size: r.o.BatchSize}
}

// run handles events until ctx ends, and returns its error then. Other errors are those after which the worker cannot go on: a Stop,
// ErrFenced, and what a later try would not change.
func (w *worker) run(ctx context.Context) error {
	for {
		err := w.follow(ctx)
		switch {
		case ctx.Err() != nil:
			w.settle(ctx)
			return ctx.Err()
		case final(err):
			if stop := (*stopped)(nil); errors.As(err, &stop) {
				return stop.error
			}
			return err
		}
		w.tries++
		w.log(ctx, slog.LevelWarn, "annals: a projection reads its position again after", slog.Any("error", err))
		if err := backoff.Wait(ctx, w.tries); err != nil {
			return err
		}
	}
}

// final reports whether a worker cannot go on after err.
func final(err error) bool {
	if stop := (*stopped)(nil); errors.As(err, &stop) {
		return true
	}
	return errors.Is(err, annals.ErrFenced) || errors.Is(err, annals.ErrClosed) || annals.IsUnsupported(err) || errors.Is(err, annals.ErrInvalid)
}

// follow handles what comes after the position that is stored, until ctx ends or something fails.
func (w *worker) follow(ctx context.Context) error {
	from, err := w.begin(ctx)
	if err != nil {
		return err
	}
	w.through, w.saved, w.savedAt = annals.Offset{}, annals.Offset{}, time.Now()
	o := query.Options{
		Poll: w.r.o.Poll, Current: w.caughtUp != nil,
		OnRetry: func(err error, try int) {
			w.log(ctx, slog.LevelWarn, "annals: a projection reads events again after", slog.Any("error", err), slog.Int("try", try))
		},
		OnSkip: func(id annals.PersistenceID, from, to annals.SeqNr) {
			w.log(ctx, slog.LevelWarn, "annals: events were deleted before a projection has handled them",
				slog.String("id", string(id)), slog.Int64("from", int64(from)), slog.Int64("to", int64(to)))
		},
	}
	next, err := w.r.stream.feed(from.lowest(w.progress.Slices), o)
	if err != nil {
		return err
	}
	for {
		if err := w.carryOut(ctx); err != nil {
			return err
		}
		batch, err := next(ctx, w.size)
		if errors.Is(err, io.EOF) {
			if err := w.save(ctx); err != nil {
				return err
			}
			w.caughtUp()
			w.caughtUp = nil
			return w.follow(ctx)
		}
		if err != nil {
			return err
		}
		batch.Events = slices.DeleteFunc(batch.Events, func(e annals.Event) bool { return from.covers(e.Offset()) })
		if err := w.handle(ctx, batch); err != nil {
			return err
		}
	}
}

// handle handles the events of batch and saves how far the worker has come.
func (w *worker) handle(ctx context.Context, batch query.Batch) error {
	pending, passed := w.pass(batch.Events) // passed are not handled; they are saved with the next step
	limit := w.size
	suspects := 0 // so many of the first events contain one whose handler fails
	for len(pending)+len(passed) > 0 {
		n := min(limit, len(pending))
		var through annals.Offset
		if n == len(pending) {
			through = batch.Through
		}
		done, err := w.r.deliver(ctx, newStep(w.progress, pending[:n], passed, through))
		if err == nil || done > 0 {
			pending, passed, suspects, w.tries = pending[done:], nil, max(suspects-done, 0), 0
		}
		f := (*failure)(nil)
		switch {
		case err == nil:
			w.saved, w.savedAt = through, time.Now()
			w.size = min(w.size+1, w.r.o.BatchSize)
			if limit = w.size; suspects > 0 {
				limit = max(suspects/2, 1)
			}
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &f) && f.at > 0:
			suspects, limit = f.at+1, f.at
			continue
		case errors.As(err, &f) && f.at == unknownEvent:
			suspects, limit = n, n/2
			continue
		case errors.As(err, &f):
		case n > 1 && ofEvents(err):
			w.size = n / 2
			limit = w.size
			continue
		case n == 1 && ofEvents(err):
			f = &failure{0, err}
		case n == 0 || w.tries == 0 || !errors.Is(err, annals.ErrUnavailable) || !w.works(ctx):
			return err
		case n > 1:
			w.size = n / 2
			return err
		default:
			if w.broken.Compare(pending[0].Offset()) != 0 {
				w.broken, w.breaks = pending[0].Offset(), 0
			}
			if w.breaks++; w.breaks < mostBreaks {
				return err
			}
			f = &failure{0, err}
		}
		e := pending[0]
		verdict, err := w.judge(ctx, e, f.err)
		switch {
		case err != nil:
			return err
		case verdict == Skip:
			passed, pending, suspects = append(passed, e.Offset()), pending[1:], 0
			limit = w.size
		case verdict == Park:
			if through = (annals.Offset{}); len(pending) == 1 {
				through = batch.Through
			}
			if err := w.park(ctx, e, f.err, passed, through); err != nil {
				return err
			}
			pending, passed = w.pass(pending[1:])
			suspects, limit, w.tries = 0, w.size, 0
		default:
			if err := backoff.Wait(ctx, w.failed); err != nil {
				return err
			}
		}
	}
	w.through = batch.Through
	if len(batch.Events) == 0 && time.Since(w.savedAt) >= quiet {
		return w.save(ctx)
	}
	return nil
}

// ofEvents reports whether err, of a transaction, may be due to what the handler wrote: fewer events may succeed.
func ofEvents(err error) bool {
	return errors.Is(err, annals.ErrTooLarge) || errors.Is(err, annals.ErrConstraint) || errors.Is(err, annals.ErrInvalid)
}

// works reports whether a save without events succeeds. Then it is due to the events that a step failed: their handlers take longer than the
// store allows, or one has broken the transaction.
func (w *worker) works(ctx context.Context) bool {
	return w.r.offsets.Offsets().Save(ctx, w.progress) == nil
}

// judge asks what happens to e, whose handler failed with cause. After a Stop it returns an error, which ends the worker.
func (w *worker) judge(ctx context.Context, e annals.Event, cause error) (Verdict, error) {
	if w.failing.Compare(e.Offset()) != 0 {
		w.failing, w.failed = e.Offset(), 0
	}
	w.failed++
	verdict := Retry
	if err := panics.Contain("OnError", e.ID, func() error { verdict = w.r.o.OnError(ctx, Failure{e, cause, w.failed}); return nil }); err != nil {
		verdict, cause = Retry, errors.Join(cause, err)
	}
	if verdict != Retry || w.failed&(w.failed-1) == 0 { // of many retries, the 1st, 2nd, 4th, 8th …
		w.log(ctx, slog.LevelError, "annals: an event was not handled", slog.String("id", string(e.ID)), slog.Int64("seqNr", int64(e.SeqNr)),
			slog.Int("try", w.failed), slog.String("verdict", verdict.String()), slog.Any("error", cause))
	}
	if verdict == Stop {
		return Stop, w.stop(e, cause)
	}
	return verdict, nil
}

// stop is the error with which the worker ends because of e.
func (w *worker) stop(e annals.Event, cause error) error {
	return &stopped{&annals.Error{Op: fmt.Sprintf("projection %s", annals.Quote(w.r.name)), ID: e.ID, Err: fmt.Errorf("event %d: %w", e.SeqNr, cause)}}
}

// stopped is the error after a Stop.
type stopped struct{ error }

func (s *stopped) Unwrap() error { return s.error }

// save saves how far the worker has come without events.
func (w *worker) save(ctx context.Context) error {
	if w.through.Compare(w.saved) <= 0 {
		return nil
	}
	w.savedAt = time.Now()
	p := w.progress
	p.Through = w.through
	if err := w.r.offsets.Offsets().Save(ctx, p); err != nil {
		return err
	}
	w.saved, w.tries = w.through, 0
	return nil
}

// settle saves how far the worker has come after ctx has ended.
func (w *worker) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if err := w.save(ctx); err != nil {
		w.log(ctx, slog.LevelWarn, "annals: a projection has not saved how far it has come, and reads some events again", slog.Any("error", err))
	}
}

func (w *worker) log(ctx context.Context, level slog.Level, text string, attrs ...slog.Attr) {
	w.r.o.Logger.LogAttrs(ctx, level, text,
		append([]slog.Attr{slog.String("projection", w.r.name), slog.String("slices", w.progress.Slices.String())}, attrs...)...)
}
