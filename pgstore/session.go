package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals/pgstore/internal/wire"
)

// unfitError says why a connection that was made cannot be used for writes.
type unfitError struct{ text string }

func (e *unfitError) Error() string { return e.text }

var (
	errStandby = errors.New("the server is a standby, which takes no writes: connect to the primary, or name all hosts and set target_session_attrs=read-write")
	errNoSync  = &unfitError{"the server runs with fsync=off, so a crash may lose acknowledged writes: switch fsync on, or accept that with Options.NonDurable"}
	errRead    = &unfitError{"the session is read-only (default_transaction_read_only is on), and a store has to write: switch that off for this role or database"}
	errPooling = &unfitError{"a pooler gives each transaction another session of the server (transaction pooling), but the store needs one session per connection: " +
		"connect to the server itself, or have the pooler keep sessions (PgBouncer: pool_mode=session)"}
)

// setUp prepares a new connection for writes, or says why it cannot be used for them.
//
// The server ends statements that take longer than WriteTimeout. The isolation level is fixed: under a stricter one a statement of a
// writer that loses would fail instead of writing nothing. A commit waits at least until it is flushed; a higher synchronous_commit is
// the operator's choice.
func (s *backend) setUp(ctx context.Context, conn *pgconn.PgConn, lockTimeout time.Duration) error {
	set := fmt.Sprintf(`set_config('statement_timeout', '%[1]d', FALSE), set_config('idle_in_transaction_session_timeout', '%[1]d', FALSE),
		set_config('default_transaction_isolation', 'read committed', FALSE)`, s.options.WriteTimeout.Milliseconds())
	if lockTimeout > 0 {
		set += fmt.Sprintf(`, set_config('lock_timeout', '%d', FALSE)`, lockTimeout.Milliseconds())
	}
	if !s.options.NonDurable {
		set += `, set_config('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), FALSE)`
	}
	row, err := wire.Ask(ctx, conn, `SELECT current_setting('transaction_read_only'), pg_is_in_recovery(), current_setting('fsync'), `+set)
	if err != nil {
		return err
	}
	readOnly, standby, fsync := row[0] == "on", row[1] == "t", row[2] == "on"
	switch {
	case standby:
		return errStandby
	case readOnly:
		return errRead
	case !fsync && !s.options.NonDurable:
		return errNoSync
	}
	return nil
}

// refusePooling returns errPooling when transactions of one connection run in different sessions of the server.
func refusePooling(ctx context.Context, pool *pgxpool.Pool, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	const session = "SELECT pg_backend_pid()"
	acquired, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer acquired.Release()
	one := acquired.Conn().PgConn()
	first, err := wire.Ask(ctx, one, session)
	if err != nil || first[0] == fmt.Sprint(one.PID()) {
		return err // there is no pooler
	}
	other, err := dial(ctx, pool.Config())
	if err != nil {
		return err
	}
	defer other.Close(context.WithoutCancel(ctx))
	// The other connection keeps a session busy with a transaction. Behind a pooler that shares sessions, the first connection now
	// gets another one.
	busy, err := wire.Ask(ctx, other.PgConn(), "BEGIN; "+session)
	if err != nil {
		return err
	}
	if busy[0] == first[0] {
		return errPooling
	}
	again, err := wire.Ask(ctx, one, session)
	if err == nil && again[0] != first[0] {
		return errPooling
	}
	return err
}
