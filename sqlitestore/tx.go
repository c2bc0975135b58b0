package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/watchers"
)

// transaction is an open write transaction.
type transaction struct {
	*statements
	clock     *clock
	checksums *checksums      // nil where none are written
	tx        *sql.Tx         // nil when the transaction is a group of writes
	dated     bool            // the clock has read the times of other processes
	signal    watchers.Signal // what the clock gave times to, also by other processes
}

// date is the time of one write of an entity, in microseconds. It is later than all times that any process has written to the file.
func (t *transaction) date(ctx context.Context, id annals.PersistenceID) (int64, error) {
	if !t.dated {
		if err := t.clock.catchUp(ctx, t.statements); err != nil {
			return 0, err
		}
		if t.clock.last > t.clock.settled { // others have written, and poll does not find that after this commit
			t.signal = watchers.Everywhere
		}
		t.dated = true
	}
	t.signal |= watchers.SignalOf(id)
	t.clock.last = max(time.Now().UnixMicro(), t.clock.last+1)
	return t.clock.last, nil
}

// InTx is ability.Transactor. No other write is executed while fn runs, so fn should be short. When ctx ends, the transaction is undone and
// other writes go on, whether fn returns or not, and uses of in and tx fail from then on; a statement that is under way ends first. tx is for
// tables of the program's own in the same file; fn must not roll it back, and cannot commit it. An error of fn is returned within an
// *annals.Error without a Kind. Other errors are ErrUnavailable (ctx ended before the COMMIT), ErrConstraint (a constraint of the program's
// own tables failed at the COMMIT) and ErrUnknown (the COMMIT failed in the file system).
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx *sql.Tx, in annals.Store) error) error {
	return driver.Write(ctx, s.Store, annals.Call{Op: "transaction"}, func(ctx context.Context) error {
		return s.backend.alone(ctx, func(ctx context.Context, t *transaction) error {
			within := &txSession{t: t, ctx: ctx}
			defer within.end(errEnded)
			err := s.within(ctx, within, func(ctx context.Context, in annals.Store) error { return fn(ctx, t.tx, in) })
			if err == nil {
				err = within.broken()
			}
			return err
		})
	})
}

// atomically is InTx without writes of the caller's own. Such transactions share a COMMIT with each other and with other writes, unless a change
// handler could want a *sql.Tx.
func (s *Store) atomically(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error {
	if s.backend.types.handled() {
		return s.InTx(ctx, func(ctx context.Context, _ *sql.Tx, in annals.Store) error { return fn(ctx, in) })
	}
	return driver.Write(ctx, s.Store, annals.Call{Op: "transaction"}, func(ctx context.Context) error {
		return s.backend.beside(ctx, func(within *txSession) error { return s.within(ctx, within, fn) })
	})
}

// within runs fn with a store that reads and writes in a transaction.
func (s *Store) within(ctx context.Context, within *txSession, fn func(ctx context.Context, in annals.Store) error) error {
	return driver.InTx(ctx, s.Store, driver.Transaction{Driver: view{within, s.backend}}, func(ctx context.Context, in *driver.Store) error { return fn(ctx, in) })
}

// txSession is the session of one transaction. One call at a time uses the connection.
type txSession struct {
	ctx context.Context // of the whole transaction

	mu    sync.Mutex
	t     *transaction
	ended error // of each use from now on; nil before end
	err   error // a failure after which the transaction must not be committed
}

var errEnded = &annals.Error{Kind: annals.ErrClosed, Err: errors.New("the transaction has ended")}

// end waits for the use that is under way. Later uses are err.
func (s *txSession) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = err
}

func (s *txSession) broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// usable is an error when the transaction has ended or failed, possibly while the call waited for s.mu.
func (s *txSession) usable(ctx context.Context) error {
	once(ctx)
	switch {
	case s.ended != nil:
		return s.ended
	case ctx.Err() != nil:
		return withdrawn(ctx)
	}
	return s.err
}

func (s *txSession) read(ctx context.Context, fn func(context.Context, *statements) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	return fn(ctx, s.t.statements)
}

func (s *txSession) readTx(ctx context.Context, fn func(context.Context, *statements) error) error {
	return s.read(ctx, fn)
}

func (s *txSession) write(ctx context.Context, w *write) error {
	if s.t.tx != nil || !w.single {
		return s.alone(ctx, w.apply)
	}
	return s.read(ctx, func(ctx context.Context, _ *statements) error {
		err := w.apply(context.WithoutCancel(ctx), s.t)
		if !refused(err) && !breaksRule(err) {
			s.err = err
		}
		return err
	})
}

// alone runs fn in the transaction. When fn fails, a savepoint undoes what it has written, and the user's function may continue.
func (s *txSession) alone(ctx context.Context, fn func(context.Context, *transaction) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	// Without the end of ctx: SQLite rolls the whole transaction back when a write is interrupted.
	uninterrupted := context.WithoutCancel(ctx)
	if s.t.tx != nil { // no other call is in it
		var interrupt context.CancelFunc
		uninterrupted, interrupt = context.WithCancel(uninterrupted)
		defer interrupt()
		defer context.AfterFunc(s.ctx, interrupt)()
		if s.err = s.stillOpen(uninterrupted); s.err != nil {
			return s.err
		}
	}
	if s.err = s.t.exec(uninterrupted, `SAVEPOINT annals`); s.err != nil {
		return s.err
	}
	err := fn(uninterrupted, s.t)
	if err != nil {
		if s.err = s.t.exec(uninterrupted, `ROLLBACK TO annals`); s.err != nil {
			return s.err
		}
	}
	if s.err = s.t.exec(uninterrupted, `RELEASE annals`); s.err != nil {
		return s.err
	}
	return err
}

// stillOpen is an error when the transaction is no longer open: SQLite has rolled it back after an error that the user's function
// ignored. A savepoint would then begin a transaction of its own, and releasing it would commit. The only way to ask SQLite is a BEGIN,
// which fails in a transaction.
func (s *txSession) stillOpen(ctx context.Context) error {
	if err := s.t.exec(ctx, `BEGIN`); err != nil {
		return nil
	}
	err := s.t.exec(ctx, `ROLLBACK`)
	return errors.Join(errRolledBack, err)
}

var errRolledBack = errors.New("an earlier statement failed, and SQLite rolled the transaction back")
