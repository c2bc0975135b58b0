package ability

import (
	"context"

	"github.com/annals-go/annals"
)

// Transactor is an optional ability of a Store: the caller's own writes in a transaction of the store. T is *sql.Tx, pgx.Tx,
// *dynamostore.Tx or memstore.Tx. docs/guide/transactions.md shows its use.
type Transactor[T any] interface {
	// InTx runs fn in one transaction: tx is the driver's transaction, and in is this store reading and writing in it. Everything is
	// committed when fn returns nil, nothing otherwise. fn runs once; calls of in after fn has returned are ErrClosed. A call of in that
	// fails leaves the transaction as it was: fn may go on.
	//
	// With fn's ctx the outer store can be read, as it was before the transaction. A write to the outer
	// store, or a command to a runtime on it, is ErrInvalid: it would wait for the transaction, which waits for fn. On DynamoDB a
	// conflict shows when InTx returns.
	InTx(ctx context.Context, fn func(ctx context.Context, tx T, in annals.Store) error) error
}
