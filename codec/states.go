package codec

import (
	"context"

	"github.com/annals-go/annals"
)

// Change is what a change handler sees.
type Change[S any] struct {
	annals.State   // ID, Revision, Deleted, …
	Value        S // zero when Deleted
}

// OnChange lets a store's change handler (annals.StateType) see decoded states. T is the store's transaction.
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

// Columns lets a store fill additional columns (annals.StateType) from decoded states.
func Columns[S any](c Codec[S], bind func(s S) annals.Columns) func(annals.State) (annals.Columns, error) {
	return func(s annals.State) (annals.Columns, error) {
		v, err := c.Decode(s.Payload)
		if err != nil {
			return nil, err
		}
		return bind(v), nil
	}
}
