package pgstore

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/watchers"
)

// transaction is one InTx.
type transaction struct {
	tx    pgx.Tx
	ctx   context.Context // of the whole transaction; calls end with it
	call  *use            // the innermost call under way
	wrote atomic.Uint64   // the Signal of what it wrote to the store's tables
}

// changed notes that a call wrote to an entity, if it did.
func (t *transaction) changed(id annals.PersistenceID, wrote bool) {
	if wrote {
		t.wrote.Or(uint64(watchers.SignalOf(id)))
	}
}

// A call within a transaction is a savepoint.
const (
	savepoint = "SAVEPOINT annals"
	undo      = "ROLLBACK TO SAVEPOINT annals"
	release   = "RELEASE SAVEPOINT annals"
)

// use is one call. Its first batch also sets the savepoint, and its last one may release it, because each request of its own costs about as
// much as a statement.
type use struct{ set, released bool }

// use begins a call, whose end rolls it back when it has failed.
func (t *transaction) use(ctx context.Context) (context.Context, func(err error) error, error) {
	ctx = within{t.ctx, ctx}
	u, outer := &use{}, t.call
	t.call = u
	return ctx, func(err error) error {
		defer func() { t.call = outer }()
		switch {
		case !u.set:
			return err
		case err != nil:
			_, _ = t.tx.Exec(ctx, undo+"; "+release)
			return err
		case u.released:
			return nil
		}
		_, err = t.tx.Exec(ctx, release)
		return err
	}, nil
}

// callTx is the transaction as calls of the store use it. It sets their savepoints.
type callTx struct {
	pgx.Tx
	t *transaction
}

// begins returns the call whose savepoint has to be set before the next statement, nil when there is none.
func (c callTx) begins() *use {
	if u := c.t.call; u != nil && !u.set {
		return u
	}
	return nil
}

// begin sets the savepoint. Where that fails, so does the statement that follows.
func (c callTx) begin(ctx context.Context) {
	if u := c.begins(); u != nil {
		_, err := c.Tx.Exec(ctx, savepoint)
		u.set = err == nil
	}
}

// Exec is pgx.Tx.
func (c callTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	c.begin(ctx)
	return c.Tx.Exec(ctx, sql, args...)
}

// Query is pgx.Tx.
func (c callTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	c.begin(ctx)
	return c.Tx.Query(ctx, sql, args...)
}

// QueryRow is pgx.Tx.
func (c callTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	c.begin(ctx)
	return c.Tx.QueryRow(ctx, sql, args...)
}

// SendBatch is pgx.Tx. The results are used by callbacks. pgx prepares statements that are new to the connection before it sends the batch. The
// server may refuse one of them, which ends the transaction unless the savepoint has been set by then. So only a batch without new statements
// sets it.
func (c callTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if c.begins() == nil {
		return c.Tx.SendBatch(ctx, b)
	}
	const key = "annals"
	custom := c.Conn().PgConn().CustomData()
	known, _ := custom[key].(map[string]bool)
	if known == nil {
		known = map[string]bool{}
		custom[key] = known
	}
	sent := slices.Clone(b.QueuedQueries)
	if slices.ContainsFunc(sent, func(q *pgx.QueuedQuery) bool { return !known[q.SQL] }) {
		c.begin(ctx)
	}
	if u := c.begins(); u != nil {
		set := &pgx.QueuedQuery{SQL: savepoint}
		set.Exec(func(pgconn.CommandTag) error { u.set = true; return nil })
		b.QueuedQueries = slices.Insert(b.QueuedQueries, 0, set)
	}
	return batchResults{c.Tx.SendBatch(ctx, b), sent, known}
}

// batchResults notes which statements the connection knows.
type batchResults struct {
	pgx.BatchResults
	sent  []*pgx.QueuedQuery
	known map[string]bool
}

// Close is pgx.BatchResults.
func (r batchResults) Close() error {
	err := r.BatchResults.Close()
	for _, q := range r.sent {
		if err == nil {
			r.known[q.SQL] = true
		} else {
			delete(r.known, q.SQL) // pgx may prepare it again
		}
	}
	return err
}

// sendLast sends the last batch of a call that writes to tx.
func sendLast(ctx context.Context, tx pgx.Tx, b *pgx.Batch) error {
	c, within := tx.(callTx)
	if within && c.t.call != nil {
		b.Queue(release)
	}
	err := tx.SendBatch(ctx, b).Close()
	if within && c.t.call != nil {
		c.t.call.released = err == nil
	}
	return err
}

// within is the context of a call within a transaction. It has the values of the call's context and ends with that of the
// transaction: pgx closes a connection when the context of its statement ends, which would end the transaction too.
type within struct {
	context.Context
	call context.Context
}

// Value implements context.Context.
func (w within) Value(key any) any { return w.call.Value(key) }

// callersTx is the transaction as the user's function gets it. The function must not end it.
type callersTx struct{ pgx.Tx }

var errNotCallers = errors.New("the store ends the transaction: return nil to commit, an error to roll back")

// Commit returns an error.
func (callersTx) Commit(context.Context) error { return errNotCallers }

// Rollback returns an error.
func (callersTx) Rollback(context.Context) error { return errNotCallers }

// InTx implements ability.Transactor. The transaction has a connection of the store's own and has to end within
// Options.WriteTimeout. Each call of in has a savepoint: a call that fails, also one that reads, leaves the transaction as it was. A call's own context is
// checked when the call begins; then it ends with the transaction's. Use in and tx from one goroutine at a time. Reads of the outer
// store see what was there before the transaction. A transaction that others' writes can make ErrConflict has to be READ COMMITTED, as the
// store begins it; otherwise it is ErrInvalid. ErrUnknown means that the answer to the commit was lost.
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx, in annals.Store) error) error {
	return driver.Write(ctx, s.Store, annals.Call{Op: "transaction"}, func(ctx context.Context) error {
		driver.Count(ctx, annals.Result{Requests: 1})
		return s.inTx(ctx, fn)
	})
}

// atomically is InTx without writes of the caller's own.
func (s *Store) atomically(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error {
	return s.InTx(ctx, func(ctx context.Context, _ pgx.Tx, in annals.Store) error { return fn(ctx, in) })
}

func (s *Store) inTx(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx, in annals.Store) error) error {
	b := s.backend
	ctx, cancel := context.WithTimeout(ctx, b.options.WriteTimeout)
	defer cancel()
	b.programs.Add(1)
	defer b.programs.Add(-1)
	t := &transaction{ctx: ctx}
	err := atomically(ctx, b.write, func(tx pgx.Tx) error {
		t.tx = callTx{tx, t}
		v := &view{b, t}
		return driver.InTx(ctx, s.Store, driver.Transaction{Driver: v, Use: t.use, Guard: v.guard}, func(ctx context.Context, in *driver.Store) error {
			return fn(ctx, callersTx{tx}, in)
		})
	})
	switch {
	case err == nil && t.wrote.Load() != 0:
		b.wrote(watchers.Signal(t.wrote.Load()))
	case err != nil && ambiguous(err):
		return &annals.Error{Kind: annals.ErrUnknown, Err: fault(err).Err}
	}
	return err
}
