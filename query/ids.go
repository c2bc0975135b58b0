package query

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/claims"
)

// IDs yields the ids of entityType, "" is any: those that are there, then new ones, each once. It ends with ctx or as Options.Current
// says. An error comes once, last, and is one that Feed.Next returns; a store that does not claim Capabilities.IDQueries is
// ErrUnsupported.
//
// Ids have no order in time: for new ones, IDs reads all ids again, at most once in Options.Poll, and remembers every id that it has
// yielded. With Options.Current it reads them once and remembers none. Options.Window has no meaning.
func IDs(ctx context.Context, s annals.Store, entityType string, o Options) iter.Seq2[annals.PersistenceID, error] {
	return func(yield func(annals.PersistenceID, error) bool) {
		const op = "follow ids"
		o, err := o.withDefaults(s)
		if err != nil {
			yield("", &annals.Error{Op: op, Kind: annals.ErrInvalid, Err: err})
			return
		}
		if err := claims.Refusal(op, s.Capabilities(), claims.IDFeed); err != nil {
			yield("", err)
			return
		}
		waker := newWaker(nil, annals.Filter{}, o) // it polls
		yielded := map[annals.PersistenceID]bool{}
		after := annals.PersistenceID("") // where a read that is repeated goes on
		err = waker.keepLooking(ctx, func() (ended bool, err error) {
			for id, err := range s.Query().IDs(ctx, entityType, after) {
				if err != nil {
					return false, err
				}
				after = id
				if yielded[id] {
					continue
				}
				if !yield(id, nil) {
					return true, nil
				}
				if !o.Current {
					yielded[id] = true
				}
			}
			after = ""
			return o.Current, nil
		})
		if err != nil {
			yield("", err)
		}
	}
}
