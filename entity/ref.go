package entity

import "context"

// Ref is the entity named id. Nothing is activated yet.
func (r *Runtime[C, S, R]) Ref(id string) Ref[C, S, R] { return Ref[C, S, R]{r, id} }

// Ref is an entity to talk to. It is a plain value: copying it is cheap, and it keeps nothing in memory.
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
