package ability

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
)

// StateFinder is an optional ability of a Store: FindStates yields the states of entityType whose additional column has the value, in no
// particular order.
type StateFinder interface {
	FindStates(ctx context.Context, entityType, column string, value any) iter.Seq2[annals.State, error]
}
