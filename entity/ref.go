package entity

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
)

// Ref is the entity named id. Nothing is activated yet.
func (r *Runtime[C, S, R]) Ref(id string) Ref[C, S, R] { return Ref[C, S, R]{r, id} }

// Ref sends commands to one entity of a Runtime. It is a plain value: copying it is cheap, and it keeps nothing in memory.
type Ref[C, S, R any] struct {
	runtime *Runtime[C, S, R]
	id      string
}

// ID is the id that the Ref was made with.
func (r Ref[C, S, R]) ID() string { return r.id }

// Ask is Runtime.Ask.
func (r Ref[C, S, R]) Ask(ctx context.Context, c C) (R, error) { return r.runtime.Ask(ctx, r.id, c) }

// Fresh is Runtime.Fresh.
func (r Ref[C, S, R]) Fresh(ctx context.Context, c C) (R, error) {
	return r.runtime.Fresh(ctx, r.id, c)
}

// Do is Runtime.Do.
func (r Ref[C, S, R]) Do(ctx context.Context, c C) (behavior.Result[R], error) {
	return r.runtime.Do(ctx, r.id, c)
}

// DoAt is Runtime.DoAt.
func (r Ref[C, S, R]) DoAt(ctx context.Context, at annals.SeqNr, c C) (behavior.Result[R], error) {
	return r.runtime.DoAt(ctx, r.id, at, c)
}

// View is Runtime.View.
func (r Ref[C, S, R]) View(ctx context.Context, fn func(s S, number annals.SeqNr) error) error {
	return r.runtime.View(ctx, r.id, fn)
}

// Load is Runtime.Load.
func (r Ref[C, S, R]) Load(ctx context.Context) (s S, number annals.SeqNr, err error) {
	return r.runtime.Load(ctx, r.id)
}

// Evict is Runtime.Evict.
func (r Ref[C, S, R]) Evict(ctx context.Context, while func(ctx context.Context) error) error {
	return r.runtime.Evict(ctx, r.id, while)
}
