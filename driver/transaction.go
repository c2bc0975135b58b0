package driver

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/contexts"
)

// Transaction is one that a store has begun for the user's function of InTx.
type Transaction struct {
	Driver Driver // reads and writes in the transaction
	// Use, when it is not nil, begins a use of the backend, for example with a savepoint, and returns the context for the use. A call is one
	// use; in loops and in Recover each Fetch is one. An error refuses the use. end is given the error of the use, nil for none, and returns the
	// error that counts.
	Use func(ctx context.Context) (within context.Context, end func(err error) error, err error)
	// Guard, when it is not nil, makes the transaction ErrConflict when something in read has another number at the commit: it is for a
	// transaction that others may write beside. written is what the transaction has written, with Number 0. Both are sorted by id, without
	// duplicates; read is not empty.
	Guard func(ctx context.Context, read, written []Seen) error
}

// InTx runs fn, with the user's function, on outer within the transaction t. Then it passes to t.Guard what fn has read. After an error the
// transaction must not be committed: that of fn, or of a command with a key whose key could not be written, is within an *annals.Error without a
// Kind, others are those of Guard, and ErrUnavailable when ctx has ended.
//
// The Capabilities of in are those of t.Driver. When fn has returned, every call of it is ErrClosed. Hosts and stores recognise by the context
// of fn that a write to the outer store would wait for the transaction, which waits for the write: such a write is ErrInvalid.
func InTx(ctx context.Context, outer *Store, t Transaction, fn func(ctx context.Context, in *Store) error) error {
	s, tx := outer.front, &transaction{use: t.Use}
	if t.Guard != nil {
		tx.reads = &reads{numbers: map[Seen]number{}, written: map[Seen]bool{}}
	}
	in := &store{name: s.name, driver: t.Driver, caps: t.Driver.Capabilities(), observer: s.observer, strict: s.strict, unused: s.unused, self: s.self, gate: s.gate, tx: tx}
	if err := func() error {
		defer tx.ended.Store(true)
		ctx := contexts.WithTx(ctx, s.self)
		if err := fn(ctx, &Store{in, in}); err != nil {
			return err
		}
		return contexts.TxFault(ctx)
	}(); err != nil {
		return &annals.Error{Op: "transaction", Err: err}
	}
	switch {
	case ctx.Err() != nil:
		return &annals.Error{Kind: annals.ErrUnavailable, Err: fmt.Errorf("the context ended before the function had returned: %w", ctx.Err())}
	case t.Guard == nil:
		return nil
	}
	read, written, err := tx.reads.list()
	if err != nil || len(read) == 0 {
		return err
	}
	return t.Guard(ctx, read, written)
}

// Within reports whether ctx is that of a transaction that calls of s would wait for. It is for hosts, which find it by ability.Of: they may have a
// wrapper of what users hold.
func (s *store) Within(ctx context.Context) bool { return s.tx == nil && contexts.InTx(ctx, s.self) }

// transaction is one that the user's function is in.
type transaction struct {
	ended atomic.Bool
	use   func(ctx context.Context) (within context.Context, end func(err error) error, err error)
	reads *reads
}
