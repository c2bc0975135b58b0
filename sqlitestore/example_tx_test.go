package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/sqlitestore"
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
func createShop(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS stock (item TEXT PRIMARY KEY, pieces INTEGER NOT NULL);
		CREATE TABLE IF NOT EXISTS outbox (order_id TEXT, seq_nr INTEGER, item TEXT, PRIMARY KEY (order_id, seq_nr))`)
	return err
}

// place stores the order's event, takes one piece from the stock and adds a row to the outbox: all of it or nothing.
func place(ctx context.Context, store *sqlitestore.Store, id string, c Place) error {
	return store.InTx(ctx, func(ctx context.Context, tx *sql.Tx, in annals.Store) error {
		orders, err := aggregate.New(in, orderBehavior, aggregate.Options{})
		if err != nil {
			return err
		}
		placed, err := orders.Do(ctx, id, c)
		if err != nil {
			return err
		}
		taken, err := tx.ExecContext(ctx, `UPDATE stock SET pieces = pieces - 1 WHERE item = ? AND pieces > 0`, c.Item)
		if err != nil {
			return err
		}
		if n, err := taken.RowsAffected(); err != nil {
			return err
		} else if n == 0 {
			return errSoldOut
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO outbox VALUES (?, ?, ?)`, id, placed.SeqNr, c.Item)
		return err
	})
}

// An order is placed by a repository on the store that InTx hands over. The program's own rows are written by the same transaction.
func ExampleStore_InTx() {
	if err := placeOrders(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// o-1: placed true, before false, sold out false
	// o-1: placed false, before true, sold out false
	// o-2: placed false, before false, sold out true
	// o-2 has 0 events; the outbox has 1 row
}

func placeOrders(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "orders-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "orders.db"), sqlitestore.Options{Init: createShop})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	err = store.InTx(ctx, func(ctx context.Context, tx *sql.Tx, _ annals.Store) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO stock VALUES ('pen', 1)`)
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range []string{"o-1", "o-1", "o-2"} {
		err := place(ctx, store, id, Place{Item: "pen"})
		fmt.Printf("%s: placed %t, before %t, sold out %t\n", id, err == nil, errors.Is(err, errPlaced), errors.Is(err, errSoldOut))
	}
	last, err := store.Journal().LastSeqNr(ctx, orderBehavior.ID("o-2"))
	if err != nil {
		return err
	}
	rows := 0
	if err := store.DB().QueryRowContext(ctx, `SELECT count(*) FROM outbox`).Scan(&rows); err != nil {
		return err
	}
	fmt.Printf("o-2 has %d events; the outbox has %d row\n", last, rows)
	return nil
}
