// Command hello counts: the smallest entity there is. It is the program in README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/sqlitestore"
)

// A counter: its commands, events, state and replies are all ints.
var counter = behavior.EventSourced[int, int, int, int]{
	Type:   "Counter",
	Decide: func(total, add int) ([]int, error) { return []int{add}, nil },
	Evolve: func(total, added int) int { return total + added },
	Reply:  func(total, _ int, _ []int) int { return total },
}

func main() {
	ctx := context.Background()
	store, err := sqlitestore.Open(ctx, "hello.db", sqlitestore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	counters, err := entity.New(store, counter, entity.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		total, err := counters.Ask(ctx, "clicks", 5)
		fmt.Println(total, err)
	}
	if err := errors.Join(counters.Shutdown(ctx), store.Close()); err != nil {
		log.Fatal(err)
	}
}
