package entity

import (
	"context"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/host"
)

// View calls fn with the state of the entity named id and its number: that of its last event, or its revision; 0 when it was never
// written. The state is valid only while fn runs: fn must not change it or keep parts of it. fn is called on another goroutine while the
// entity runs no command, so it should be short and must not wait for a command to the entity.
//
// View returns when everything that the state depends on is stored and, unless Options.SingleOwner is set, the store has confirmed
// that no other owner had written to the entity when View was called, as for an answer of Ask that wrote nothing. When another
// owner has written, the entity is loaded and fn is called once more: only the last call counts. fn is not called after View has returned.
//
// An error of fn is returned unchanged; a panic of fn is ErrPanic. When ctx ends first the error is ErrUnavailable with ctx's error.
func (r *Runtime[C, S, R]) View(ctx context.Context, id string, fn func(s S, number annals.SeqNr) error) error {
	var mu sync.Mutex
	returned := false
	defer func() {
		mu.Lock()
		defer mu.Unlock()
		returned = true
	}()
	c := r.newCommand(ctx, viewing)
	c.view = func(s S, number annals.SeqNr) error {
		mu.Lock()
		defer mu.Unlock()
		if returned {
			return nil
		}
		return fn(s, number)
	}
	if err := r.submit(id, c); err != nil {
		return err
	}
	err := c.err
	r.recycle(c)
	return err
}

// Load returns the state that View shows and its number. What the state refers to (maps, slices, pointers) is the entity's: the caller must not
// change it, and where Evolve changes such parts in place, use View.
func (r *Runtime[C, S, R]) Load(ctx context.Context, id string) (s S, number annals.SeqNr, err error) {
	err = r.View(ctx, id, func(now S, at annals.SeqNr) error { s, number = now, at; return nil })
	return s, number, err
}

// LoadAt returns the state of an event-sourced entity after its event n, and the number of the last event in it: n, or less if n is a number
// without an event. 0 is the state before the first event. It is computed from the newest snapshot at or before n, or from the first event; the entity in memory is not used and not changed.
// The state is the caller's.
//
// ErrTruncated when events are deleted that it needs and that no snapshot at or before n covers, as those of an entity that was deleted.
// Events that were deleted while the entity had no snapshot are left out, as by Load. ErrInvalid when n is negative or above the last number,
// ErrUnsupported for a durable state, which has no past.
func (r *Runtime[C, S, R]) LoadAt(ctx context.Context, id string, n annals.SeqNr) (s S, number annals.SeqNr, err error) {
	return r.model.LoadAt(ctx, id, host.Past{Number: n})
}

// LoadAsOf is LoadAt for the time t: the state after the last event whose time is not after t, by the times of the store. Where the times of an
// entity go back, because a clock was set back or events were imported, the event after it is later than t. ErrUnsupported for a store that
// does not claim Capabilities.Times.
func (r *Runtime[C, S, R]) LoadAsOf(ctx context.Context, id string, t time.Time) (s S, number annals.SeqNr, err error) {
	return r.model.LoadAt(ctx, id, host.Past{Time: t, Timed: true})
}
