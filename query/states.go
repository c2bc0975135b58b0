package query

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
)

// States yields the durable states that fit f, tombstones included: those that are there, then each one that changes. Of an entity that
// changes often, states in between may be left out, the newest never. It ends as Events does, and f.After, f.Limit and f.Behind are as
// there. With Options.Current it ends when it has read to the end once. Without f.Type, the states in which the library keeps its own data are left
// out: those of types that begin with "annals.".
func States(ctx context.Context, s annals.Store, f annals.Filter, o Options) iter.Seq2[annals.State, error] {
	return follow(ctx, s, f, o, NewStateFeed)
}
