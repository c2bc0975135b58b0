package projection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/panics"
	"github.com/annals-go/annals/internal/quote"
	"github.com/annals-go/annals/query"
)

// quiet is how often a worker without events saves how far it has come.
const quiet = 10 * time.Second

const (
	quick      = 500 * time.Millisecond // in which a batch is handled before they become larger
	remembered = time.Minute            // after batches became smaller, in which they do not become larger
	mostUndone = 100                    // steps in a row that a database undoes because of others, until that is a failure like others
)

// mostBreaks is how often the step of a single event fails, while the store works, until that is the failure of the event.
const mostBreaks = 8

// worker handles the events of one range, in one goroutine.
type worker struct {
	r        *Runner
	progress annals.Progress // of every step: the projection, the slices and the epoch
	catchUp  *catchUp        // that the slices are not reached for yet; nil: none

	past    *past                  // nil: the projection was never reset
	parked  map[int]parkedEntities // by slice
	ordered []ParkedEntity         // of them, to be retried
	orders  int64                  // that have been read, of Runner.orders

	health   *condition // of the slices
	lateness lateness

	size     int       // of batches
	shrunk   time.Time // when size was made smaller last
	suspects int       // so many of the next events contain one whose handler fails, or were too many
	few      int       // how many events the next step has, if there are suspects
	doubts   bool      // the suspects may have been too many
	fits     int       // the largest step that has succeeded since
	misses   int       // how many steps of several events have failed in a row
	careful  int       // the most events of a step after one has failed, doubled with each that succeeds; 0: no bound

	undone  int           // how often the database has undone the step since one succeeded
	tries   int           // to go on since something was saved
	failing annals.Offset // the event that has failed last
	failed  int           // how often it has
	broken  annals.Offset // the event whose step, without others, has failed last while the store works
	breaks  int           // how often it has
	through annals.Offset // how far everything has been handled, saved or not
	saved   annals.Offset // the Through that was saved last
	savedAt time.Time
}

func newWorker(r *Runner, slices annals.SliceRange, epoch int64, c *catchUp) *worker {
	return &worker{r: r, progress: annals.Progress{Projection: r.name, Slices: slices, Epoch: epoch}, catchUp: c, health: r.health(slices), size: r.o.BatchSize,
		lateness: lateness{passed: map[annals.PersistenceID]annals.Offset{}, retried: map[annals.PersistenceID]annals.Offset{}}}
}

// run handles events until ctx ends, and returns its error then. Other errors are final.
func (w *worker) run(ctx context.Context) error {
	for {
		err := w.follow(ctx)
		switch {
		case ctx.Err() != nil:
			w.settle(ctx)
			return ctx.Err()
		case final(err):
			w.settleLate(ctx)
			return err
		}
		w.health.tries()
		w.health.repeat(err)
		if w.tries++; backoff.Seldom(w.tries) {
			w.log(ctx, slog.LevelWarn, "annals: a projection reads its position again after", slog.Any("error", err), slog.Int("try", w.tries))
		}
		if err := backoff.Wait(ctx, w.tries); err != nil {
			return err
		}
	}
}

// final reports whether a worker cannot go on after err: a Stop, ErrFenced, and a store that is closed or lacks what is needed. Whatever else a
// store says may be different later: of a table that is being renamed, or a right that is missing for a while, it says ErrInvalid. A Runner
// with wrong settings is not made.
func final(err error) bool {
	return errors.As(err, new(*stopped)) || errors.Is(err, annals.ErrFenced) || errors.Is(err, annals.ErrClosed) || errors.Is(err, annals.ErrUnsupported)
}

// follow handles what comes after the position that is stored, until ctx ends or something fails.
func (w *worker) follow(ctx context.Context) error {
	from, err := w.begin(ctx)
	if err != nil {
		return err
	}
	w.r.waits.begins(w.progress.Slices)
	clear(w.lateness.passed) // by another feed
	// What the position does not cover comes again.
	w.lateness.waiting = slices.DeleteFunc(w.lateness.waiting, func(e annals.Event) bool { return !from.covers(e.Offset()) })
	lowest := from.lowest(w.progress.Slices)
	w.through, w.saved, w.savedAt = lowest.Through, lowest.Through, time.Now()
	o := query.Options{
		Poll: w.r.o.Poll, Audit: w.r.o.Audit, Reuse: true,
		OnWarning: func(err error) { w.warned(ctx, err) },
		OnRetry: func(err error, try int) {
			if try++; backoff.Seldom(try) {
				w.log(ctx, slog.LevelWarn, "annals: a projection reads events again after", slog.Any("error", err), slog.Int("try", try))
			}
		},
		OnSkip: func(id annals.PersistenceID, from, to annals.SeqNr) {
			w.log(ctx, slog.LevelWarn, "annals: events were deleted before a projection has handled them",
				slog.String("id", string(id)), slog.Int64("from", int64(from)), slog.Int64("to", int64(to)))
		},
	}
	next, err := w.r.stream.feed(lowest, o)
	if err != nil {
		return err
	}
	feeding, end := context.WithCancel(ctx)
	defer end() // ends the watch of the feed
	var newest annals.Offset
	if w.catchUp != nil {
		if newest, err = w.catchUp.end(ctx); err != nil {
			return err
		}
	}
	for {
		if err := w.handleLate(ctx); err != nil {
			return err
		}
		if err := w.carryOut(ctx); err != nil {
			return err
		}
		batch, err := next(feeding, w.size)
		if err != nil {
			return err
		}
		full := len(batch.Items) == w.size
		batch.Items = w.late(batch.Items)
		if err := w.handleLate(ctx); err != nil { // before later events of their entities
			return err
		}
		batch.Items = slices.DeleteFunc(batch.Items, func(e annals.Event) bool { return from.covers(e.Offset()) })
		if len(batch.Items) == 0 {
			w.health.succeeds()
		}
		began := time.Now()
		if err := w.handle(ctx, batch); err != nil {
			return err
		}
		if w.catchUp != nil && (batch.CaughtUp || batch.Through.Compare(newest) >= 0) {
			if err := w.save(ctx); err != nil {
				return err
			}
			w.catchUp.set(&w.catchUp.reached, w.progress.Slices, true)
			w.catchUp = nil
		}
		if full && time.Since(began) < quick && time.Since(w.shrunk) >= remembered {
			w.size = min(2*w.size, w.r.most)
		}
	}
}

// handle handles the events of batch and saves how far the worker has come.
func (w *worker) handle(ctx context.Context, batch query.Batch[annals.Event]) error {
	pending, passed, err := w.divide(ctx, batch.Items) // passed are not handled; they are saved with the next step
	if err != nil {
		return err
	}
	for len(pending)+len(passed) > 0 {
		n := min(w.size, len(pending))
		switch {
		case w.suspects > 0:
			n = min(w.few, n)
		case w.careful > 0:
			n = min(w.careful, n)
		}
		var through annals.Offset
		if n == len(pending) {
			through = batch.Through
		}
		w.health.tries()
		s := newStep(w.progress, pending[:n], passed, through)
		s.past = w.past
		done, err := w.r.deliver(ctx, s)
		if err == nil || done > 0 {
			pending, passed = pending[done:], nil
			w.succeeded(done)
		}
		f := (*failure)(nil)
		switch {
		case err == nil:
			w.saved, w.savedAt = through, time.Now()
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case undone(err) && w.undone < mostUndone:
			if err := w.again(ctx, err); err != nil {
				return err
			}
			continue
		case errors.As(err, &f) && f.at > 0:
			w.suspects, w.few = f.at+1, f.at
			continue
		case errors.As(err, &f) && f.at == unknownEvent:
			w.suspect(n, errors.Is(err, errSlow))
			if err := w.spare(ctx); err != nil {
				return err
			}
			continue
		case errors.As(err, &f):
		case !w.blames(ctx, pending[:n], err):
			return err
		case n > 1:
			w.health.repeat(err)
			w.suspect(n, true)
			continue
		default:
			f = &failure{0, err}
		}
		e := pending[0]
		w.doubts = false
		verdict, err := w.judge(ctx, e, f.err)
		switch {
		case err != nil:
			return err
		case verdict == Skip:
			passed, pending, w.suspects = append(passed, e.Offset()), pending[1:], 0
		case verdict == Park:
			if through = (annals.Offset{}); len(pending) == 1 {
				through = batch.Through
			}
			s := newStep(w.progress, nil, append(passed, e.Offset()), through)
			if err := w.park(ctx, ParkedEntity{ID: e.ID, Since: time.Now().UTC()}, e, f.err, s, 0); err != nil {
				return err
			}
			w.lateness.passed[e.ID] = e.Offset()
			pending, passed = w.pass(pending[1:])
			w.suspects = 0
		default:
			if err := backoff.Wait(ctx, w.failed); err != nil {
				return err
			}
		}
	}
	w.through = batch.Through
	if len(batch.Items) == 0 && time.Since(w.savedAt) >= quiet {
		return w.save(ctx)
	}
	return nil
}

// suspect notes that a step of n events has failed because of one of them, or, if it is in doubt, because there were so many.
func (w *worker) suspect(n int, doubts bool) {
	if doubts && !w.doubts {
		w.doubts, w.fits = true, 0
	}
	w.suspects, w.few = n, n/2
}

// spare waits before a group is handled again of which nobody knows how many events have had an effect, such as messages that a broker has
// accepted. The next groups are small, so that little is repeated if they fail too.
func (w *worker) spare(ctx context.Context) error {
	w.misses, w.careful = w.misses+1, 1
	return backoff.Wait(ctx, w.misses)
}

// succeeded notes that a step of n events has succeeded. When that was all that were suspected, there were too many in one step.
func (w *worker) succeeded(n int) {
	w.suspects, w.tries, w.undone, w.misses = max(w.suspects-n, 0), 0, 0, 0
	if w.careful *= 2; w.careful >= w.size {
		w.careful = 0
	}
	w.few, w.fits = max(w.suspects/2, 1), max(w.fits, n)
	if w.doubts && w.suspects == 0 {
		w.size, w.shrunk, w.doubts = w.fits, time.Now(), false
	}
	w.health.succeeds()
}

// again waits before a step is done again that the database has undone, with err, because of another one.
func (w *worker) again(ctx context.Context, err error) error {
	if n := w.health.repeat(err); backoff.Seldom(int(n)) {
		w.log(ctx, slog.LevelWarn, "annals: a database has undone a step, because another one writes to the same rows; it is done again, and the ranges of this process take turns for a while",
			slog.Int64("repeats", n), slog.Any("error", err))
	}
	w.undone++
	w.r.turns.undone()
	return backoff.Wait(ctx, w.undone)
}

// blames reports whether events are why their step failed with err, which the store returned: then fewer of them may succeed, and a single one
// has failed. They are not while a save without events fails, too.
func (w *worker) blames(ctx context.Context, events []annals.Event, err error) bool {
	broken := errors.Is(err, annals.ErrUnavailable) && w.tries > 0 // a handler that takes too long, or breaks the transaction, does it again
	if len(events) == 0 || errors.Is(err, errLater) || !broken && !ofEvents(err) || w.r.offsets.Offsets().Save(ctx, w.progress) != nil {
		return false
	}
	if len(events) > 1 || !broken {
		return true
	}
	if w.broken.Compare(events[0].Offset()) != 0 {
		w.broken, w.breaks = events[0].Offset(), 0
	}
	w.breaks++
	return w.breaks >= mostBreaks
}

// ofEvents reports whether err, of a transaction, says that what the handler wrote is refused.
func ofEvents(err error) bool {
	return errors.Is(err, annals.ErrTooLarge) || errors.Is(err, annals.ErrConstraint) || errors.Is(err, annals.ErrInvalid)
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
	if verdict != Retry || backoff.Seldom(w.failed) {
		w.log(ctx, slog.LevelError, "annals: an event was not handled", slog.String("id", string(e.ID)), slog.Int64("seqNr", int64(e.SeqNr)),
			slog.Int("try", w.failed), slog.String("verdict", verdict.name()), slog.Any("error", cause))
	}
	w.r.tell(ctx, annals.Call{Op: verdict.name(), ID: e.ID, Events: 1}, annals.Result{Retries: w.failed - 1, Err: cause})
	if verdict == Stop {
		return Stop, w.stop(e, cause)
	}
	return verdict, nil
}

// stop is the error with which the worker ends because of e.
func (w *worker) stop(e annals.Event, cause error) error {
	return &stopped{&annals.Error{Op: fmt.Sprintf("projection %s", quote.Text(w.r.name)), ID: e.ID, Err: fmt.Errorf("event %d: %w", e.SeqNr, cause)}}
}

// stopped is an error with which Run ends: that of a Stop, or of a projection that follows other events.
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
	w.settleLate(context.WithValue(ctx, runKey{}, nil)) // which finishing would take for ctx
}

func (w *worker) log(ctx context.Context, level slog.Level, text string, attrs ...slog.Attr) {
	w.r.o.Logger.LogAttrs(ctx, level, text,
		append([]slog.Attr{slog.String("projection", w.r.name), slog.String("slices", w.progress.Slices.String())}, attrs...)...)
}
