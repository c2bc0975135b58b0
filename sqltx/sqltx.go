// Package sqltx is for programs whose own tables are in the database of a store, SQLite or PostgreSQL, and whose statements are the same on
// both. Store.SQL of sqlitestore and of pgstore returns a Store. Where the statements differ, use the transactions of the two stores,
// *sql.Tx and pgx.Tx.
//
// Parameters are written $1, $2, … on both. Values are of types that both drivers take and return: integers, float64, string, bool and
// []byte. A time is stored as an integer.
package sqltx

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// Store is a store in a database, and the tables of the program beside it. It has all abilities of the store that it was made from.
type Store interface {
	annals.Store
	// InTx runs fn in one transaction. It is for projection.ExactlyOnce, too.
	ability.Transactor[Tx]
	// Read reads outside of a transaction, as Tx.Query does. It takes no connection from writers.
	Read(ctx context.Context, row func(scan func(into ...any) error) error, text string, args ...any) error
}

// Tx executes statements in a transaction. It is used by one goroutine at a time, until the function that it was given to returns.
type Tx interface {
	// Exec executes a statement and returns how many rows it has changed.
	Exec(ctx context.Context, text string, args ...any) (changed int64, err error)
	// Query calls row for each row that the statement returns, until row returns an error. row executes no other statement; scan copies the
	// columns to the values that into points to.
	Query(ctx context.Context, row func(scan func(into ...any) error) error, text string, args ...any) error
}
