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
	// What fn has read through in must be unchanged at the commit, or until fn writes it. Otherwise nothing is stored, and InTx returns
	// ErrConflict: call it again. That holds for the last number of an entity, a recovery, a replay to the last event and a state, on a store that claims
	// Capabilities.GuardsReads; not for a query, a snapshot, an Offset, and what fn reads with tx.
	//
	// With fn's ctx the outer store can be read, as it was before the transaction. A write to the outer
	// store, or a command to a runtime on it, is ErrInvalid: it would wait for the transaction, which waits for fn. On DynamoDB a
	// conflict shows when InTx returns.
	InTx(ctx context.Context, fn func(ctx context.Context, tx T, in annals.Store) error) error
}

// Atomic is an optional ability of a Store: a transaction without writes of the caller's own. Every Transactor of this module has it.
type Atomic interface {
	// Atomically is InTx for a caller that does not know the driver.
	Atomically(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error
}

// Atomically runs fn in one transaction of s, as Transactor.InTx does. ErrUnsupported says that s is not Atomic.
func Atomically(ctx context.Context, s annals.Store, fn func(ctx context.Context, in annals.Store) error) error {
	a, err := Of[Atomic](s)
	if err != nil {
		return err
	}
	return a.Atomically(ctx, fn)
}
