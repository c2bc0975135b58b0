package projection

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// condition is how a Runner gets on with one range. The worker of the range writes it, and the group reads it.
type condition struct {
	timeout time.Duration // of a call of the handler
	grace   time.Duration // a call that has not returned so long after that hangs
	text    func(error) string

	mu      sync.Mutex
	called  time.Time // when the handler was called that has not returned; zero: there is none
	since   time.Time // when the first try of what has not succeeded yet began; zero: all has
	steps   int64     // that have succeeded
	repeats int64     // steps that were done again
	cause   string    // of the last of them
	said    time.Duration

	lateEvents int64     // that are not in the record yet
	lateAt     time.Time // when the last was found
	warning    string    // of the store of the events
	warnedAt   time.Time
}

// warns is for how long a warning of a store counts that it does not repeat.
const warns = time.Minute

// stuckAfter is how long a range does not go on until that is logged and in the Status.
const stuckAfter = 30 * time.Second

// errSlow is in the error of a call of the handler that took longer than Options.HandlerTimeout.
var errSlow = fmt.Errorf("the handler took longer than Options.HandlerTimeout: %w", context.DeadlineExceeded)

// calls calls the handler n times, until a call fails. The context of a call ends after the timeout. When a call hangs, its transaction is
// undone, so that it does not hold up others; undo ends ctx then. undo may be nil.
func (h *condition) calls(ctx context.Context, undo context.CancelCauseFunc, n int, handle func(ctx context.Context, i int) error) error {
	if undo == nil {
		undo = func(error) {}
	}
	within, slow, end := h.limited(ctx)
	hang := time.AfterFunc(h.timeout+h.grace, func() { undo(errSlow) })
	defer func() {
		end(nil)
		slow.Stop()
		hang.Stop()
		h.set(&h.called, time.Time{})
	}()
	for i := range n {
		slow.Reset(h.timeout)
		hang.Reset(h.timeout + h.grace)
		h.set(&h.called, time.Now())
		err := handle(within, i)
		inTime := slow.Stop()
		if !hang.Stop() {
			undo(errSlow)
		}
		switch undone := errors.Is(context.Cause(ctx), errSlow); {
		case err == nil && undone:
			return fmt.Errorf("%w, %v, and %v more", errSlow, h.timeout, h.grace)
		case err != nil && !inTime && (undone || ctx.Err() == nil):
			return fmt.Errorf("%w, %v: %w", errSlow, h.timeout, err)
		case err != nil:
			return err
		case !inTime:
			within, slow, end = h.limited(ctx)
		}
	}
	return nil
}

// limited returns a context for calls of the handler, which slow ends with errSlow.
func (h *condition) limited(ctx context.Context) (within context.Context, slow *time.Timer, end context.CancelCauseFunc) {
	within, end = context.WithCancelCause(ctx)
	return within, time.AfterFunc(h.timeout, func() { end(errSlow) }), end
}

func (h *condition) set(field *time.Time, to time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*field = to
}

// begins notes that the range has been taken, and that its worker has tried nothing yet. What a former worker has left is not of this one.
func (h *condition) begins() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since, h.said = time.Time{}, 0
}

// tries notes that something is tried that has to succeed before the range goes on.
func (h *condition) tries() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.IsZero() {
		h.since = time.Now()
	}
}

// succeeds notes that what tries has noted has succeeded.
func (h *condition) succeeds() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since, h.said = time.Time{}, 0
	h.steps++
}

// succeeded is how often something has.
func (h *condition) succeeded() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.steps
}

// repeat notes that a step is done again because of err. It returns how many were.
func (h *condition) repeat(err error) int64 {
	cause := "SQLSTATE " + sqlState(err)
	if sqlState(err) == "" {
		cause = textOf(err, h.text) // without the lock: it is the user's
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.repeats++
	h.cause = cause
	return h.repeats
}

// late notes that n events have become visible too late.
func (h *condition) late(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lateEvents, h.lateAt = h.lateEvents+n, time.Now()
}

// takeLate returns what late has noted since it was called last.
func (h *condition) takeLate() (n int64, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, h.lateEvents = h.lateEvents, 0
	return n, h.lateAt.UTC().Truncate(time.Millisecond)
}

// warns notes a warning of the store of the events.
func (h *condition) warns(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.warning, h.warnedAt = err.Error(), time.Now()
}

// trouble is what the other runners and Control see of h.
func (h *condition) trouble(from int) trouble {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := trouble{From: from, Repeats: h.repeats, Cause: h.cause}
	if time.Since(h.warnedAt) < warns {
		t.Warning = h.warning
	}
	t.Hangs = !h.called.IsZero() && time.Since(h.called) >= h.timeout+h.grace
	if stuck := time.Since(h.since); !h.since.IsZero() && (stuck >= stuckAfter || t.Hangs) {
		t.Since = h.since.UTC().Truncate(time.Millisecond)
	}
	return t
}

// say reports whether t is to be logged, which it is after 30 s, 1 min, 2 min, 4 min …
func (h *condition) say(t trouble) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	stuck := time.Since(t.Since)
	if t.Since.IsZero() || stuck < 2*h.said {
		return false
	}
	h.said = stuck
	return true
}

// sqlState is the SQLSTATE of an error of a database; "" where it has none.
func sqlState(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	return ""
}

// undone reports whether err is that of a database that has undone a transaction because of another one, such as a deadlock.
func undone(err error) bool { return strings.HasPrefix(sqlState(err), "40") }

// turns has the ranges of a Runner handle their steps one after another for a while, after a database has undone one because of another one.
type turns struct {
	token chan struct{} // of one element, which a step puts in and takes out

	mu    sync.Mutex
	until time.Time
	span  time.Duration // the last while
}

const (
	shortTurns, longTurns = 10 * time.Second, 2 * time.Minute // PostgreSQL notices a deadlock after a second
	longestWait           = 5 * time.Second                   // for a turn: a step that hangs must not stop the other ranges
)

func newTurns() *turns { return &turns{token: make(chan struct{}, 1)} }

// undone begins another while, twice as long as the last if that ended only just now.
func (t *turns) undone() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.span = min(2*t.span, longTurns); now.Sub(t.until) > t.span {
		t.span = shortTurns
	}
	t.until = now.Add(t.span)
}

// take waits for the turn of a step, if steps are to be handled in turn. end ends it.
func (t *turns) take(ctx context.Context) (end func()) {
	t.mu.Lock()
	inTurn := time.Now().Before(t.until)
	t.mu.Unlock()
	if !inTurn {
		return func() {}
	}
	longest := time.NewTimer(longestWait)
	defer longest.Stop()
	select {
	case t.token <- struct{}{}:
		return func() { <-t.token }
	case <-longest.C:
	case <-ctx.Done():
	}
	return func() {}
}
