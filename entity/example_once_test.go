package entity_test

import (
	"context"
	"fmt"

	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/memstore"
)

// A runtime has no keys. Commands that clients may send again go through a Repository of the same behavior.
func Example_commandsWithKeys() {
	ctx, store := context.Background(), memstore.New()
	account := behavior.EventSourced[int, int, int, int]{
		Type:   "Account",
		Decide: func(_, amount int) ([]int, error) { return []int{amount}, nil },
		Evolve: func(total, amount int) int { return total + amount },
		Reply:  func(total, _ int, _ []int) int { return total },
	}
	accounts, err := entity.New(store, account, entity.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	once, err := aggregate.New(store, account, aggregate.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(accounts.Ask(ctx, "a-1", 5))
	fmt.Println(once.AskOnce(ctx, "request-1", "a-1", 100))
	fmt.Println(accounts.Ask(ctx, "a-1", 5))
	fmt.Println(once.AskOnce(ctx, "request-1", "a-1", 100))
	fmt.Println(accounts.Shutdown(ctx))
	// Output:
	// 5 <nil>
	// 105 <nil>
	// 110 <nil>
	// 105 <nil>
	// <nil>
}
