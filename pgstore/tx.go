package pgstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
)

// transaction is one InTx.
type transaction struct {
	tx    pgx.Tx
	ctx   context.Context // of the whole: it ends what a call waits for
	done  atomic.Bool
	wrote atomic.Bool // the store's tables: followers are to be told
}

// within is the context of a call within a transaction: it ends when the transaction's does, for the driver closes a connection whose
// statement is interrupted. The call's own is looked at when the call begins.
type within struct {
	context.Context
	call context.Context
}

// Value is the call's.
func (w within) Value(key any) any { return w.call.Value(key) }

// callersTx is a transaction in the hands of the user's function: it is not the function that ends it.
type callersTx struct{ pgx.Tx }

var errNotYours = errors.New("the store ends the transaction: return nil to commit, an error to roll back")

// Commit refuses.
func (callersTx) Commit(context.Context) error { return errNotYours }

// Rollback refuses.
func (callersTx) Rollback(context.Context) error { return errNotYours }

// InTx is annals.Transactor. The transaction has a connection of the store's own and has to end within
// Options.WriteTimeout. Calls through in are savepoints: one that fails leaves the transaction as it was, reads too. A call's own
// context counts when the call begins; afterwards the transaction's does. in is for one goroutine at a time, as tx is. Reads of
// the outer store see what was there before. ErrUnknown means that the answer to the commit was lost.
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx, in annals.Store) error) (err error) {
	c, err := view{s: s}.beginWrite(ctx, "transaction", "", 0)
	if err != nil {
		return err
	}
	defer c.end(&err)
	ctx, cancel := context.WithTimeout(annals.ContextWithTx(c.ctx, s), s.options.WriteTimeout)
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	t, committed := &transaction{tx: tx, ctx: ctx}, false
	defer func() {
		t.done.Store(true)
		if !committed { // an error, or a panic in fn
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), networkTime)
			defer cancel()
			_ = tx.Rollback(ctx)
		}
	}()
	if err := fn(ctx, callersTx{tx}, &inTx{view: view{s, t}}); err != nil {
		return &annals.Error{Op: "transaction", Err: err}
	}
	t.done.Store(true)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the function took longer than %v: %w", s.options.WriteTimeout, err)
	}
	if err := commitTx(ctx, tx); err != nil {
		return writeFault("transaction", "", err)
	}
	committed = true
	if t.wrote.Load() {
		s.wrote()
	}
	return nil
}

// inTx is a store inside a transaction.
type inTx struct {
	annals.Unsupported
	view
}

var (
	_ annals.Recoverer   = (*inTx)(nil)
	_ annals.StateFinder = (*inTx)(nil)
	_ annals.Forgetter   = (*inTx)(nil)
)

func (t *inTx) Journal() annals.Journal           { return journal{t.view} }
func (t *inTx) Snapshots() annals.SnapshotStore   { return snapshots{t.view} }
func (t *inTx) States() annals.StateStore         { return states{t.view} }
func (t *inTx) Query() annals.Query               { return query{t.view} }
func (t *inTx) Offsets() annals.OffsetStore       { return offsets{t.view} }
func (t *inTx) Capabilities() annals.Capabilities { return t.s.Capabilities() }

func (t *inTx) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	return t.recover(ctx, id, snapshot, event)
}

func (t *inTx) FindStates(ctx context.Context, entityType, column string, value any) iter.Seq2[annals.State, error] {
	return t.findStates(ctx, entityType, column, value)
}
