package aggregate_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/memstore"
)

// A counter: its commands, events, state and replies are all ints.
var counter = behavior.EventSourced[int, int, int, int]{
	Type:   "Counter",
	Decide: func(total, add int) ([]int, error) { return []int{add}, nil },
	Evolve: func(total, added int) int { return total + added },
	Reply:  func(total, _ int, _ []int) int { return total },
}

// DoAt is an If-Match: it does nothing to an entity that has changed.
func ExampleRepository_DoAt() {
	ctx := context.Background()

	counters, err := aggregate.New(memstore.New(), counter, aggregate.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	seen, err := counters.Do(ctx, "c-1", 5)
	fmt.Println(seen.Reply, seen.SeqNr, err)
	_, err = counters.Do(ctx, "c-1", 1) // another caller
	fmt.Println(err)
	_, err = counters.DoAt(ctx, "c-1", seen.SeqNr, 2)
	fmt.Println(errors.Is(err, annals.ErrConflict))
	// Output:
	// 5 1 <nil>
	// <nil>
	// true
}
