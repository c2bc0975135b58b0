package projection

import (
	"context"
	"errors"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/progress"
)

// Names returns the names of the projections that have been run, or paused, with their position in store, in the order in which the store lists ids.
// ErrUnsupported for a store that does not claim Capabilities.IDQueries and States: it cannot list them.
func Names(ctx context.Context, store annals.Store) ([]string, error) {
	if c := store.Capabilities(); !c.IDQueries || !c.States {
		return nil, &annals.Error{Op: "list projections", Kind: annals.ErrUnsupported, Err: errors.New("the store does not claim IDQueries and States")}
	}
	return progress.Names(ctx, store, nil)
}
