package memstore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/memstore"
)

// Place is a command: place an order. Placed is its event.
type (
	Place  struct{ Item string }
	Placed struct{ Item string }
)

var errPlaced = errors.New("the order was placed before")

// orderBehavior accepts one Place for each order. Its state is what was placed.
var orderBehavior = behavior.EventSourced[Place, Placed, Placed, struct{}]{
	Type: "Order",
	Decide: func(o Placed, c Place) ([]Placed, error) {
		if o.Item != "" {
			return nil, errPlaced
		}
		return []Placed{Placed(c)}, nil
	},
	Evolve: func(_, e Placed) Placed { return e },
}

var errSoldOut = errors.New("sold out")

// stockBehavior counts the pieces of one item. A command adds to the count.
var stockBehavior = behavior.DurableState[int, int, int]{
	Type: "Stock",
	Decide: func(n, add int) (behavior.Effect[int], error) {
		if n+add < 0 {
			return behavior.Effect[int]{}, errSoldOut
		}
		return behavior.Save(n + add), nil
	},
	Reply: func(n, _ int) int { return n },
}

// place stores the event of the order and takes one piece from the stock: both or neither.
func place(ctx context.Context, store *memstore.Store, id string, c Place) error {
	return store.InTx(ctx, func(ctx context.Context, _ memstore.Tx, in annals.Store) error {
		orders, err := aggregate.New(in, orderBehavior, aggregate.Options{})
		if err != nil {
			return err
		}
		stocks, err := aggregate.NewState(in, stockBehavior, aggregate.Options{})
		if err != nil {
			return err
		}
		if _, err := orders.Do(ctx, id, c); err != nil {
			return err
		}
		_, err = stocks.Do(ctx, c.Item, -1)
		return err
	})
}

// A memory store has no tables of the caller's own. A durable state takes their place here: it is written with the event, or not
// at all.
func ExampleStore_InTx() {
	ctx, store := context.Background(), memstore.New()
	stocks, err := aggregate.NewState(store, stockBehavior, aggregate.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(stocks.Ask(ctx, "pen", 1))
	for _, id := range []string{"o-1", "o-1", "o-2"} {
		err := place(ctx, store, id, Place{Item: "pen"})
		last, _ := store.Journal().LastSeqNr(ctx, orderBehavior.ID(id))
		fmt.Println(id, "has", last, "events;", errors.Is(err, errPlaced), errors.Is(err, errSoldOut))
	}
	// Output:
	// 1 <nil>
	// o-1 has 1 events; false false
	// o-1 has 1 events; true false
	// o-2 has 0 events; false true
}
