package entity

import (
	"context"
	"sync"

	"github.com/annals-go/annals"
)

// View calls fn with the state of the entity named id and its number: that of its last event, or its revision; 0 when it was never
// written. The state is valid only while fn runs: fn must not change it or keep parts of it. fn is called on another goroutine while the
// entity runs no command, so it should be short.
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
