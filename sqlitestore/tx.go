package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/panics"
)

// transaction is an open write transaction: statements that run in it, and the clock for what they write.
type transaction struct {
	*statements
	clock     *clock
	checksums *checksums // nil where none are written
	tx        *sql.Tx    // nil in a group
	dated     bool       // the clock has seen what other processes wrote
}

// date is the time of one write in microseconds: above every date that this file has seen, by any process.
func (t *transaction) date(ctx context.Context) (int64, error) {
	if !t.dated {
		if err := t.clock.catchUp(ctx, t.statements); err != nil {
			return 0, err
		}
		t.dated = true
	}
	t.clock.last = max(time.Now().UnixMicro(), t.clock.last+1)
	return t.clock.last, nil
}

// InTx runs fn in one transaction of the writer connection, which nobody else can use meanwhile: keep it short. tx is
// for the user's own tables in the same file; it must not be committed or rolled back by fn. A panic in fn rolls back
// and goes on. The errors are those of fn, in an *annals.Error without a Kind, ErrUnavailable when ctx ended before
// everything was written, ErrConstraint when the user's own tables refuse at the COMMIT, and ErrUnknown when the
// COMMIT failed in the file system.
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx *sql.Tx, in annals.Store) error) error {
	c := annals.Call{Op: "transaction"}
	ctx, o := s.observe(ctx, c)
	err := s.alone(ctx, c, func(ctx context.Context, t *transaction) error {
		in := &inside{s: s, t: t}
		defer in.end()
		if err := fn(ctx, t.tx, &insideStore{contracts{session: in, shared: s.shared}}); err != nil {
			return &annals.Error{Op: c.Op, Err: err}
		}
		return in.broken()
	})
	o.requests(1)
	return o.end(ctx, err)
}

// alone runs fn in a transaction of its own, on the caller's goroutine, and commits when it returns nil.
func (s *Store) alone(ctx context.Context, c annals.Call, fn func(ctx context.Context, t *transaction) error) error {
	if annals.ContextInTx(ctx, s) {
		return errInside(c)
	}
	release, err := s.writer.exclusive(ctx, c)
	if err != nil {
		return err
	}
	defer release()
	tx, err := s.begin(ctx)
	if err != nil {
		return translate(c.Op, c.ID, err)
	}
	defer func() { _ = tx.Rollback() }() // without effect behind a Commit; for errors, panics and Goexit
	t := &transaction{tx: tx, clock: &s.writer.clock, checksums: s.writer.checksums, statements: &statements{prepare: tx.PrepareContext}}
	if err := fn(annals.ContextWithTx(ctx, s), t); err != nil {
		return translate(c.Op, c.ID, err)
	}
	if ctx.Err() != nil {
		return withdrawn(ctx, c.Op, c.ID)
	}
	if err := tx.Commit(); err != nil {
		if uncertain(err) {
			err = &annals.Error{Op: c.Op, ID: c.ID, Kind: annals.ErrUnknown, Err: err}
		}
		return translate(c.Op, c.ID, err)
	}
	if err := s.files.check(); err != nil {
		return translate(c.Op, c.ID, err)
	}
	s.watchers.wake()
	return nil
}

// begin waits for the file's write lock until ctx ends.
func (s *Store) begin(ctx context.Context) (*sql.Tx, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		// Without ctx: database/sql would roll back on its own, between two statements, when it ends.
		tx, err := s.conn.BeginTx(context.WithoutCancel(ctx), nil)
		if err == nil || !busy(err) {
			return tx, err
		}
		select {
		case <-time.After(jitter(pause)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func errInside(c annals.Call) error {
	return invalid(c.Op, c.ID, "the context is that of a function inside a transaction: write to the store that it was given")
}

// insideStore is the store that InTx hands out.
type insideStore struct{ contracts }

// Close does nothing: the transaction ends with its function.
func (*insideStore) Close() error { return nil }

// inside is the session of one transaction. One call at a time uses the connection.
type inside struct {
	s *Store

	mu   sync.Mutex
	t    *transaction
	dead bool
	err  error // a failure that undid more than its own write: the transaction must not be committed
}

func (in *inside) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.dead = true
}

func (in *inside) broken() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.err
}

func (in *inside) open(c annals.Call) error {
	switch {
	case in.dead:
		return &annals.Error{Op: c.Op, ID: c.ID, Kind: annals.ErrClosed, Err: errors.New("the transaction has ended")}
	case in.err != nil:
		return in.err
	}
	return nil
}

func (in *inside) read(ctx context.Context, c annals.Call, fn func(context.Context, *statements) error) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.open(c); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return withdrawn(ctx, c.Op, c.ID)
	}
	return translate(c.Op, c.ID, fn(ctx, in.t.statements))
}

func (in *inside) readTx(ctx context.Context, c annals.Call, fn func(context.Context, *statements) error) error {
	return in.read(ctx, c, fn)
}

// write undoes with a savepoint what a failed write left half done, so that fn may go on without it.
func (in *inside) write(ctx context.Context, c annals.Call, j *write) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.open(c); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return withdrawn(ctx, c.Op, c.ID)
	}
	// Without a way to be interrupted: SQLite rolls the whole transaction back when a write is.
	uninterrupted := annals.ContextWithTx(context.WithoutCancel(ctx), in.s)
	if err := in.stillOpen(uninterrupted); err != nil {
		return in.breaks(c, err)
	}
	if _, err := in.t.exec(uninterrupted, `SAVEPOINT annals`); err != nil {
		return in.breaks(c, err)
	}
	err := j.apply(uninterrupted, in.t)
	if err != nil {
		if _, err := in.t.exec(uninterrupted, `ROLLBACK TO annals`); err != nil {
			return in.breaks(c, err)
		}
	}
	if _, err := in.t.exec(uninterrupted, `RELEASE annals`); err != nil {
		return in.breaks(c, err)
	}
	return translate(c.Op, c.ID, err)
}

// stillOpen is an error when SQLite has rolled the transaction back because of a statement of fn's, who did not care. A
// savepoint would then be a transaction by itself, and be committed whatever becomes of fn. SQLite refuses a BEGIN in a
// transaction, which is the only way to ask.
func (in *inside) stillOpen(ctx context.Context) error {
	if _, err := in.t.exec(ctx, `BEGIN`); err != nil {
		return nil
	}
	_, err := in.t.exec(ctx, `ROLLBACK`)
	return errors.Join(errRolledBack, err)
}

var errRolledBack = errors.New("an earlier statement failed, and SQLite rolled the transaction back")

// alone runs fn as write does; the transaction that it wants is there already.
func (in *inside) alone(ctx context.Context, c annals.Call, fn func(context.Context, *transaction) error) error {
	return in.write(ctx, c, &write{apply: fn})
}

func (in *inside) breaks(c annals.Call, err error) error {
	in.err = translate(c.Op, c.ID, err)
	return in.err
}

// contained runs the user's fn and makes a panic in it an error.
func contained(c annals.Call, fn func() error) error {
	return panics.Contain(c.Op, c.ID, func() error {
		err := fn()
		if err == nil {
			return nil
		}
		e := &annals.Error{Op: c.Op, ID: c.ID, Err: err}
		if breaksRule(err) {
			e.Kind = annals.ErrConstraint
		}
		return e
	})
}
