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

// place stores the event of the order, takes one piece from the stock and adds a line to the outbox: all of it or nothing.
func place(ctx context.Context, store *memstore.Store, id string, c Place) error {
	return store.InTx(ctx, func(ctx context.Context, tx memstore.Tx, in annals.Store) error {
		orders, err := aggregate.New(in, orderBehavior, aggregate.Options{})
		if err != nil {
			return err
		}
		placed, err := orders.Do(ctx, id, c)
		if err != nil {
			return err
		}
		pieces, _ := tx.Value("stock " + c.Item).(int)
		if pieces == 0 {
			return errSoldOut
		}
		tx.SetValue("stock "+c.Item, pieces-1)
		tx.SetValue(fmt.Sprintf("outbox %s %d", id, placed.SeqNr), c.Item)
		return nil
	})
}

// deliver puts pieces of an item into the stock.
func deliver(ctx context.Context, store *memstore.Store, item string, pieces int) error {
	return store.InTx(ctx, func(_ context.Context, tx memstore.Tx, _ annals.Store) error {
		tx.SetValue("stock "+item, pieces)
		return nil
	})
}

// An order is placed by a repository on the store that InTx hands over. A memory store has no tables: the program's own data are values
// by key, which are written by the same transaction.
func ExampleStore_InTx() {
	ctx, store := context.Background(), memstore.New()
	if err := deliver(ctx, store, "pen", 1); err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []string{"o-1", "o-1", "o-2"} {
		err := place(ctx, store, id, Place{Item: "pen"})
		fmt.Printf("%s: placed %t, before %t, sold out %t\n", id, err == nil, errors.Is(err, errPlaced), errors.Is(err, errSoldOut))
	}
	last, err := store.Journal().LastSeqNr(ctx, orderBehavior.ID("o-2"))
	fmt.Println("o-2 has", last, "events;", store.Value("outbox o-1 1"), store.Value("outbox o-2 1"), err)
	// Output:
	// o-1: placed true, before false, sold out false
	// o-1: placed false, before true, sold out false
	// o-2: placed false, before false, sold out true
	// o-2 has 0 events; pen <nil> <nil>
}
