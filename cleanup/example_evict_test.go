package cleanup_test

import (
	"context"
	"fmt"

	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/cleanup"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/memstore"
)

var counter = behavior.EventSourced[int, int, int, int]{
	Type:   "Counter",
	Decide: func(total, add int) ([]int, error) { return []int{add}, nil },
	Evolve: func(total, added int) int { return total + added },
	Reply:  func(total, _ int, _ []int) int { return total },
}

// An entity that a runtime has in memory is forgotten within Evict: its commands wait meanwhile, and the runtime reads it again afterwards.
func ExampleCleaner_ForgetEntities_inMemory() {
	ctx, store := context.Background(), memstore.New()
	counters, err := entity.New(store, counter, entity.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := cleanup.New(store, cleanup.Options{AtOnce: true}) // no other process writes to this store
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(counters.Ask(ctx, "c-1", 5))
	err = counters.Evict(ctx, "c-1", func(ctx context.Context) error {
		_, err := c.ForgetEntities(ctx, cleanup.IDs(counter.ID("c-1")))
		return err
	})
	fmt.Println(err)
	fmt.Println(counters.Ask(ctx, "c-1", 2))
	// Output:
	// 5 <nil>
	// <nil>
	// 2 <nil>
}
