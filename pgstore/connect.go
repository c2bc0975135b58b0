package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/bound"
	"github.com/annals-go/annals/internal/contexts"
	"github.com/annals-go/annals/pgstore/internal/wire"
)

const (
	idleTime   = time.Minute            // after which a connection for writes that is not used is closed
	spareTime  = 200 * time.Millisecond // the same of the spare connection, for which another process may wait
	spareTries = 8                      // of a call that may wait for the end of the transaction instead: a quarter of a second at most
)

// querier is a pool or a transaction.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	Begin(ctx context.Context) (pgx.Tx, error)
}

// connect makes the store's own pools from the configuration of the caller's pool. Together they open at most as many connections as
// the caller's pool may. Groups have a pool of their own so that they never wait for a transaction of the user, which may itself wait for an
// append. A caller's pool of one connection is used for everything: see share.
func (s *backend) connect(ctx context.Context) (err error) {
	if err := s.findPooler(ctx); err != nil || s.options.ReadOnly {
		return err
	}
	config := s.config()
	s.shared = config.MaxConns == 1
	s.direct = wire.Direct(config) && !s.shared
	s.sockets.Limit = s.answerTime()
	if s.shared {
		return s.share(ctx, config)
	}
	groups := min(max(config.MaxConns/2, 1), maxGroups)
	writes := max(config.MaxConns-groups, 1)
	if s.write, err = s.writePool(ctx, config, writes, 0); err != nil {
		return err
	}
	if s.group, err = s.writePool(ctx, config, groups, groupLockTimeout); err != nil {
		return err
	}
	return s.group.attempt(ctx, func(context.Context, querier) error { return nil }) // so that Open fails if no write can be made
}

func (s *backend) writePool(ctx context.Context, config *pgxpool.Config, n int32, lockTimeout time.Duration) (*writePool, error) {
	begin := ""
	if s.pooled {
		begin = s.begin(lockTimeout)
	}
	c := s.limited(config, n, func(ctx context.Context, conn *pgconn.PgConn) error { return s.setUp(ctx, conn, lockTimeout) })
	c.ConnConfig.DialFunc = s.sockets.Dialer(c.ConnConfig.DialFunc)
	c.MaxConnIdleTime = min(c.MaxConnIdleTime, idleTime)
	pool, err := pgxpool.NewWithConfig(ctx, c)
	return &writePool{pool, begin}, err
}

// begin begins a transaction that is set up for writes.
func (s *backend) begin(lockTimeout time.Duration) string {
	return "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT " + s.settings(lockTimeout, true)
}

// share makes the only connection of the caller's pool that of writes, too. Its session belongs to the caller: so each write is a transaction
// that sets itself up, as behind a pooler. While a transaction of the program has the connection, reads and groups get another one: the
// transaction may wait for them.
func (s *backend) share(ctx context.Context, config *pgxpool.Config) error {
	s.write, s.group = &writePool{s.reads, s.begin(0)}, &writePool{s.reads, s.begin(groupLockTimeout)}
	c := s.limited(config, 1, func(context.Context, *pgconn.PgConn) error { return nil })
	c.MaxConnIdleTime, c.HealthCheckPeriod = spareTime, spareTime
	var err error
	if s.spare, err = pgxpool.NewWithConfig(ctx, c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.answerTime())
	defer cancel()
	return s.reads.AcquireFunc(ctx, func(conn *pgxpool.Conn) error { return s.setUp(ctx, conn.Conn().PgConn(), 0) })
}

// pool is where reads and groups get a connection: the caller's pool, of one connection, unless a transaction of the program has that. Where the
// server refuses another one, calls from within the transaction wait until it accepts one. All others wait a moment, in which a listener gives way, and
// then for the end of the transaction.
func (s *backend) pool(ctx context.Context) *pgxpool.Pool {
	within := s.shared && contexts.InTx(ctx, s.self)
	for n := 0; within || s.shared && s.programs.Load() > 0 && n < spareTries; n++ {
		conn, err := s.spare.Acquire(ctx)
		if err == nil {
			conn.Release()
			return s.spare
		}
		if within && code(err) != tooManyConnections || backoff.Wait(ctx, n) != nil {
			return s.spare // the call fails with the cause
		}
	}
	return s.reads
}

// groupPool is the pool for groups.
func (s *backend) groupPool(ctx context.Context) *writePool {
	switch {
	case s.shared:
		return &writePool{s.pool(ctx), s.group.begin}
	case s.options.ReadOnly: // for CheckHealth
		return &writePool{Pool: s.reads}
	}
	return s.group
}

// config is the configuration of the caller's pool, for connections of the store's own.
func (s *backend) config() *pgxpool.Config {
	config := s.reads.Config()
	config.MinConns, config.MinIdleConns = 0, 0 // these are for the caller's pool only
	if c := config.ConnConfig; c.ConnectTimeout == 0 || c.ConnectTimeout > s.answerTime() {
		c.ConnectTimeout = s.answerTime()
	}
	return config
}

// disconnect closes the store's pools. Connections whose server does not answer are closed without waiting for it.
func (s *backend) disconnect() {
	force := time.AfterFunc(s.answerTime(), s.sockets.Close)
	defer force.Stop()
	for _, pool := range []*writePool{s.write, s.group} {
		if pool != nil && pool.Pool != nil && !s.shared {
			pool.Close()
		}
	}
	if s.spare != nil {
		bound.Wait(s.answerTime(), s.spare.Close)
	}
	if s.own {
		bound.Wait(s.answerTime(), s.reads.Close)
	}
}

// limited is the configuration of a pool of n connections, which setUp prepares.
func (s *backend) limited(config *pgxpool.Config, n int32, setUp func(ctx context.Context, conn *pgconn.PgConn) error) *pgxpool.Config {
	c := config.Copy()
	c.MaxConns = n
	c.ConnConfig.Tracer = s.reconnects.traced(c.ConnConfig.Tracer)
	before, after, onError := c.BeforeConnect, c.AfterConnect, c.ConnConfig.OnPgError
	c.BeforeConnect = func(ctx context.Context, cc *pgx.ConnConfig) (err error) {
		if err = s.reconnects.allow(); err == nil && before != nil {
			err = before(ctx, cc)
			s.reconnects.failed(err)
		}
		return unsent(err)
	}
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) (err error) {
		ctx, cancel := context.WithTimeout(ctx, s.answerTime())
		defer cancel()
		if after != nil {
			err = after(ctx, conn)
		}
		if err == nil { // after the caller's hook, so that these settings win
			err = setUp(ctx, conn.PgConn())
		}
		if err == nil {
			s.reconnects.succeeded()
		}
		s.reconnects.failed(err)
		return unsent(err)
	}
	c.ConnConfig.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		if err.Code == readOnlyTransaction {
			return false // close the connection: the next one may reach the server that took over
		}
		return onError == nil || onError(conn, err)
	}
	return c
}

// unsent marks the error of a connection that was not made: no write went over it.
func unsent(err error) error {
	if err == nil {
		return nil
	}
	return &undoneError{err}
}

// dial makes a connection as a pool with that configuration would.
func dial(ctx context.Context, config *pgxpool.Config) (*pgx.Conn, error) {
	c := config.ConnConfig.Copy()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, c); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil || config.AfterConnect == nil {
		return conn, err
	}
	if err := config.AfterConnect(ctx, conn); err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// answerTime is how long an answer may take: the server's own time-out and the time on the network.
func (s *backend) answerTime() time.Duration {
	return s.options.WriteTimeout + min(networkTime, 4*s.options.WriteTimeout)
}

// atomically runs fn in a transaction. When q is a transaction already, fn runs in it: each call within InTx is a savepoint. Only
// after an error of the COMMIT the outcome is unknown. When fn fails, nothing was written.
func atomically(ctx context.Context, q querier, fn func(tx pgx.Tx) error) error {
	if tx, ok := q.(pgx.Tx); ok {
		return fn(tx)
	}
	tx, err := q.Begin(ctx)
	if err != nil {
		return &undoneError{err}
	}
	defer func() { // does nothing after a COMMIT that was answered
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), networkTime)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	if err = fn(tx); err == nil {
		err = ctx.Err()
	}
	if err != nil {
		if code(err) == readOnlyTransaction {
			_ = tx.Conn().Close(ctx) // the next connection may reach the server that took over
		}
		return &undoneError{err}
	}
	err = tx.Commit(ctx)
	// When no answer comes the outcome is unknown, even if pgx says that nothing was sent: when a connection breaks during a COMMIT,
	// pgx 5.12 says so wrongly.
	if err == nil || errors.As(err, new(*pgconn.PgError)) || errors.Is(err, pgx.ErrTxCommitRollback) {
		return err
	}
	return &lostError{err}
}
