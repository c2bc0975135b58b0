package query_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqlitestore"
)

// Deposited is the event of an account.
type Deposited struct{ Amount int }

var deposits = codec.JSON[Deposited]("deposited")

// balances keeps the table balance: the sum of the deposits of each account.
func balances(store *sqlitestore.Store) (*projection.Runner, error) {
	source := projection.Source[Deposited]{Store: store, Type: "Account", Codec: deposits}
	handle := func(ctx context.Context, tx *sql.Tx, e projection.Envelope[Deposited]) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO balance (account, amount) VALUES (?, ?)
			ON CONFLICT (account) DO UPDATE SET amount = amount + excluded.amount`, e.ID.EntityID(), e.Value.Amount)
		return err
	}
	return projection.ExactlyOnce("balances", source, store, handle, projection.Options{})
}

// A read model: a table of one's own that follows the events, each of which counts exactly once.
func Example_readModel() {
	if err := showBalance(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: the balance of a-1 is 42
}

func showBalance(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "balances")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "accounts.db"), sqlitestore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	if err := deposit(ctx, store, "Account|a-1", 30, 12); err != nil {
		return err
	}
	createTable := func(ctx context.Context, tx *sql.Tx, _ annals.Store) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE balance (account TEXT PRIMARY KEY, amount INTEGER NOT NULL)`)
		return err
	}
	if err := store.InTx(ctx, createTable); err != nil {
		return err
	}
	runner, err := balances(store)
	if err != nil {
		return err
	}
	if err := runner.CatchUp(ctx); err != nil { // a server calls Run, which goes on until ctx ends
		return err
	}
	return store.InTx(ctx, func(ctx context.Context, tx *sql.Tx, _ annals.Store) error {
		var amount int
		if err := tx.QueryRowContext(ctx, `SELECT amount FROM balance WHERE account = 'a-1'`).Scan(&amount); err != nil {
			return err
		}
		fmt.Println("the balance of a-1 is", amount)
		return nil
	})
}

// deposit stores one event for each amount.
func deposit(ctx context.Context, store annals.Store, account annals.PersistenceID, amounts ...int) error {
	commit := annals.Commit{ID: account}
	for _, amount := range amounts {
		payload, err := deposits.Encode(Deposited{amount})
		if err != nil {
			return err
		}
		commit.Events = append(commit.Events, annals.NewEvent{Payload: payload})
	}
	_, err := store.Journal().Append(ctx, commit)
	return err
}
