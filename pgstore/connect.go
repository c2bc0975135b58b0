package pgstore

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// querier is a pool or a transaction.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	Begin(ctx context.Context) (pgx.Tx, error)
}

// connect makes the store's own pools from the configuration of the caller's.
func (s *Store) connect(ctx context.Context) error {
	config := s.reads.Config()
	var err error
	config.MinConns, config.MinIdleConns = 0, 0 // of the caller's pool, not of ours
	if s.write, err = pgxpool.NewWithConfig(ctx, s.bounded(config.Copy(), nil)); err != nil {
		return fault("open", "", err)
	}
	quick := s.bounded(config.Copy(), map[string]string{"lock_timeout": milliseconds(groupLockTimeout)})
	quick.MaxConns = maxGroups
	if s.group, err = pgxpool.NewWithConfig(ctx, quick); err != nil {
		s.write.Close()
		return fault("open", "", err)
	}
	s.direct = direct(quick)
	s.groups.write = s.writeGroup
	s.notifier.start(s)
	s.listener.start(s)
	return nil
}

// bounded has the server end what takes longer than WriteTimeout on the connections of config. Isolation is fixed as
// well: under a stricter level the statements would fail where they now lose in peace.
func (s *Store) bounded(config *pgxpool.Config, more map[string]string) *pgxpool.Config {
	timeout := milliseconds(s.options.WriteTimeout)
	params := config.ConnConfig.RuntimeParams
	params["statement_timeout"] = timeout
	params["idle_in_transaction_session_timeout"] = timeout
	params["default_transaction_isolation"] = "read committed"
	params["default_transaction_read_only"] = "off"
	maps.Copy(params, more)
	if c := config.ConnConfig; c.ConnectTimeout == 0 || c.ConnectTimeout > s.answerTime() {
		c.ConnectTimeout = s.answerTime()
	}
	return config
}

// answerTime is how long an answer may take: the server's own time-out and the way.
func (s *Store) answerTime() time.Duration { return s.options.WriteTimeout + networkTime }

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// acquire takes a connection for a write. When it fails, nothing was sent.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	conn, err := s.write.Acquire(ctx)
	if err != nil {
		return nil, &undoneError{err}
	}
	return conn, nil
}

// atomically runs fn in a transaction of q, a savepoint when q is one. Only the error of the COMMIT leaves open what
// happened: whatever went wrong before it, nothing was written.
func atomically(ctx context.Context, q querier, fn func(tx pgx.Tx) error) error {
	tx, err := q.Begin(ctx)
	if err != nil {
		return &undoneError{err}
	}
	defer func() { // does nothing behind a COMMIT that was answered
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), networkTime)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	if err := fn(tx); err != nil {
		return &undoneError{err}
	}
	return commitTx(ctx, q, tx)
}

// commitTx commits tx, which q began. When no answer comes it does not believe the driver's word that nothing was sent:
// of a COMMIT whose connection breaks pgx 5.12 says so wrongly.
func commitTx(ctx context.Context, q querier, tx pgx.Tx) error {
	if err := ctx.Err(); err != nil {
		return &undoneError{err}
	}
	err := tx.Commit(ctx)
	_, savepoint := q.(pgx.Tx)
	if err == nil || savepoint || errors.As(err, new(*pgconn.PgError)) || errors.Is(err, pgx.ErrTxCommitRollback) {
		return err
	}
	return &lostError{err}
}
