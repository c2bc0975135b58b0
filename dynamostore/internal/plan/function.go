package plan

import (
	"context"
	"errors"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// Function is an operation that a layout offers beyond the contracts of annals. The layout's package exports a Go function for each, which
// calls Run.
type Function struct {
	Op string // the operation, as observers and errors name it
	// ID is the entity; "" is none. An id that the contracts would refuse is ErrInvalid.
	ID     annals.PersistenceID
	Writes bool
	// Run does the work: c is what the layout offers, and x runs the requests. Both are those of a transaction when the Runner is a
	// store inside one. A Function that does not write may run the caller's code between its requests.
	Run func(ctx context.Context, c Contracts, x Executor) error
}

// Runner runs the functions of a layout. A *dynamostore.Store is one, and so is the store inside its transactions.
type Runner interface {
	// Execute runs f. An error that Run returns is given f's Op and ID. Execute is ErrClosed after Close. A Function that writes is
	// refused where other writes are: with the context of a transaction, on the store outside of it.
	Execute(ctx context.Context, f Function) error
}

// Run runs f in s. It is ErrUnsupported for a store that is no Runner.
func Run(ctx context.Context, s annals.Store, f Function) error {
	r, err := ability.Of[Runner](s)
	if err != nil {
		return &annals.Error{Op: f.Op, ID: f.ID, Kind: annals.ErrUnsupported, Err: errors.New("the store is not of package dynamostore")}
	}
	return r.Execute(ctx, f)
}

// OnJournal returns the Run of a Function that works on a journal of a layout's own type J. It is ErrUnsupported for the journal of another
// layout, or none.
func OnJournal[J annals.Journal](run func(ctx context.Context, j J) error) func(context.Context, Contracts, Executor) error {
	return func(ctx context.Context, c Contracts, _ Executor) error {
		j, ok := c.Journal.(J)
		if !ok {
			return &annals.Error{Kind: annals.ErrUnsupported}
		}
		return run(ctx, j)
	}
}

// Each runs f, which has no Run, on a journal as OnJournal does, and yields what read does. An error ends the sequence.
func Each[J annals.Journal, T any](ctx context.Context, s annals.Store, f Function, read func(ctx context.Context, j J) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		left := false
		f.Run = OnJournal(func(ctx context.Context, j J) error {
			for v, err := range read(ctx, j) {
				if err != nil {
					return err
				}
				if left = !yield(v, nil); left {
					return nil
				}
			}
			return nil
		})
		if err := Run(ctx, s, f); err != nil && !left {
			var none T
			yield(none, err)
		}
	}
}
