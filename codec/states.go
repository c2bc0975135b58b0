package codec

import (
	"context"

	"github.com/annals-go/annals"
)

// Change is a change of a durable state, as a change handler is given it.
type Change[S any] struct {
	annals.State   // ID, Revision, Deleted, …
	Value        S // zero when Deleted
}

// OnChange makes a change handler of a store (annals.StateType.OnChange) from one that takes decoded states. T is the type of the store's
// transaction. A state that c cannot decode is an error, which undoes the change.
func OnChange[S, T any](c Codec[S], handle func(ctx context.Context, tx T, change Change[S]) error) func(context.Context, T, annals.State) error {
	return func(ctx context.Context, tx T, s annals.State) error {
		change := Change[S]{State: s}
		if !s.Deleted {
			var err error
			if change.Value, err = c.Decode(s.Payload); err != nil {
				return err
			}
		}
		return handle(ctx, tx, change)
	}
}

// Columns makes annals.StateType.Bind from a function of decoded states. A state that c cannot decode is an error.
func Columns[S any](c Codec[S], bind func(s S) annals.Columns) func(annals.State) (annals.Columns, error) {
	return func(s annals.State) (annals.Columns, error) {
		v, err := c.Decode(s.Payload)
		if err != nil {
			return nil, err
		}
		return bind(v), nil
	}
}
