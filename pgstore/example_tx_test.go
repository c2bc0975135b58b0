package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/pgstore"
)

// Place is a command: place an order. Placed is its event.
type (
	Place  struct{ Item string }
	Placed struct{ Item string }
)

var (
	errPlaced  = errors.New("the order was placed before")
	errSoldOut = errors.New("sold out")
)

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

// createShop makes two tables of the program's own.
const createShop = `
	CREATE TABLE stock (item TEXT PRIMARY KEY, pieces INTEGER NOT NULL);
	CREATE TABLE outbox (order_id TEXT, seq_nr BIGINT, item TEXT NOT NULL, PRIMARY KEY (order_id, seq_nr))`

// place stores the order's event, takes one piece from the stock and adds a row to the outbox: all of it or nothing.
func place(ctx context.Context, store *pgstore.Store, id string, c Place) error {
	return store.InTx(ctx, func(ctx context.Context, tx pgx.Tx, in annals.Store) error {
		orders, err := aggregate.New(in, orderBehavior, aggregate.Options{})
		if err != nil {
			return err
		}
		placed, err := orders.Do(ctx, id, c)
		if err != nil {
			return err
		}
		taken, err := tx.Exec(ctx, `UPDATE stock SET pieces = pieces - 1 WHERE item = $1 AND pieces > 0`, c.Item)
		if err != nil {
			return err
		}
		if taken.RowsAffected() == 0 {
			return errSoldOut
		}
		_, err = tx.Exec(ctx, `INSERT INTO outbox VALUES ($1, $2, $3)`, id, placed.SeqNr, c.Item)
		return err
	})
}

// An order is placed by a repository on the store that InTx hands over. The program's own rows are written by the same transaction.
func ExampleStore_InTx() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	store, err := pgstore.Open(ctx, pool, pgstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()

	switch err := place(ctx, store, "o-1", Place{Item: "pen"}); {
	case err == nil:
		fmt.Println("the event, the stock and the outbox are written")
	case errors.Is(err, errSoldOut), errors.Is(err, errPlaced):
		fmt.Println("rejected, and nothing is written:", err)
	case errors.Is(err, annals.ErrUnknown):
		fmt.Println("the answer to the commit was lost: place the same order again, errPlaced says that it had been stored")
	default:
		fmt.Println("nothing is written:", err)
	}
}
