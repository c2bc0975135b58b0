package aggregate_test

import (
	"context"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/memstore"
)

// deposit adds amount to an account. request is the id of the client's request, which the client sends again until it has an answer.
func deposit(ctx context.Context, store annals.Store, request, account string, amount int) (int, error) {
	counters, err := aggregate.New(store, counter, aggregate.Options{})
	if err != nil {
		return 0, err
	}
	return counters.AskOnce(ctx, request, account, amount)
}

// A request that is sent again has its effect once, and gets its first reply again.
func ExampleRepository_AskOnce() {
	ctx, store := context.Background(), memstore.New()
	fmt.Println(deposit(ctx, store, "r-1", "a-1", 100))
	fmt.Println(deposit(ctx, store, "r-2", "a-1", 50))
	fmt.Println(deposit(ctx, store, "r-1", "a-1", 100))
	// Output:
	// 100 <nil>
	// 150 <nil>
	// 100 <nil>
}
