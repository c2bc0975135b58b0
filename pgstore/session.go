package pgstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals/internal/findings"
	"github.com/annals-go/annals/pgstore/internal/wire"
)

// unfitError says why a connection that was made cannot be used for writes.
type unfitError struct{ *findings.Fault }

func (e *unfitError) Unwrap() error { return e.Fault }

func unfit(code, found, do string) *unfitError {
	return &unfitError{&findings.Fault{Code: code, Found: found, Do: do}}
}

var (
	errStandby = &findings.Fault{Code: "standby", Found: "the server is a standby, which takes no writes", Do: "connect to the primary, or name all hosts and set target_session_attrs=read-write"}
	errNoSync  = unfit("fsync", "the server runs with fsync=off, so a crash may lose acknowledged writes", "switch fsync on, or accept that with Options.NonDurable")
	errRead    = unfit("read-only", "the session is read-only (default_transaction_read_only is on), and a store has to write", "switch that off for this role or database")
	errPooling = unfit("pooler", "a pooler answers where the server itself answered when the store was opened", "open the store again")
)

// settings is a list of expressions that set up a session for writes or, if local is true, the transaction.
//
// The server ends statements that take longer than WriteTimeout. A commit waits at least until it is flushed; a higher synchronous_commit is
// the operator's choice.
func (s *backend) settings(lockTimeout time.Duration, local bool) string {
	set := fmt.Sprintf(`set_config('statement_timeout', '%[1]d', %[2]t), set_config('idle_in_transaction_session_timeout', '%[1]d', %[2]t)`,
		s.options.WriteTimeout.Milliseconds(), local)
	if lockTimeout > 0 {
		set += fmt.Sprintf(`, set_config('lock_timeout', '%d', %t)`, lockTimeout.Milliseconds(), local)
	}
	if !s.options.NonDurable {
		set += fmt.Sprintf(`, set_config('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), %t)`, local)
	}
	return set
}

// setUp prepares a new connection for writes, or says why it cannot be used for them. Behind a pooler, and where reads and writes share the
// connection, each transaction is prepared instead. The isolation level is fixed: under a stricter one a statement of a writer that loses would fail instead of writing nothing.
func (s *backend) setUp(ctx context.Context, conn *pgconn.PgConn, lockTimeout time.Duration) error {
	ask := `SELECT current_setting('transaction_read_only'), pg_is_in_recovery(), current_setting('fsync'), pg_backend_pid()`
	if !s.pooled && !s.shared {
		ask += `, set_config('default_transaction_isolation', 'read committed', FALSE), ` + s.settings(lockTimeout, false)
	}
	row, err := wire.Ask(ctx, conn, ask)
	if err != nil {
		return err
	}
	faults := s.sessionFaults(row)
	if row[3] != fmt.Sprint(conn.PID()) && !s.pooled {
		faults = append(faults, errPooling)
	}
	if len(faults) > 0 {
		return faults[0]
	}
	return nil
}

// sessionFaults is everything for which a session is refused, from its transaction_read_only, pg_is_in_recovery() and fsync. Any session can read.
func (s *backend) sessionFaults(row []string) (faults []error) {
	switch {
	case s.options.ReadOnly:
		return nil
	case row[1] == "t":
		faults = append(faults, errStandby)
	case row[0] == "on":
		faults = append(faults, errRead)
	}
	if row[2] != "on" && !s.options.NonDurable {
		faults = append(faults, errNoSync)
	}
	return faults
}

var errNoPool = errors.New("the pool is nil")

// findPooler finds out whether there is a pooler in front of the server. A pooler has process ids of its own for its clients. The transactions
// of a client may then have a different session each, so the store relies on no session: reads prepare no statements, and
// writePool.attempt prepares each transaction.
func (s *backend) findPooler(ctx context.Context) error {
	if s.reads == nil {
		return invalid(errNoPool)
	}
	ctx, cancel := context.WithTimeout(ctx, s.answerTime())
	defer cancel()
	acquired, err := s.reads.Acquire(ctx)
	if err != nil {
		return err
	}
	defer acquired.Release()
	conn := acquired.Conn().PgConn()
	row, err := wire.Ask(ctx, conn, "SELECT pg_backend_pid()")
	if err != nil || row[0] == fmt.Sprint(conn.PID()) {
		return err
	}
	s.pooled = true
	config := s.reads.Config()
	if err := keepsSettings(ctx, conn, config.ConnConfig.RuntimeParams); err != nil {
		return err
	}
	switch c := config.ConnConfig; c.DefaultQueryExecMode {
	case pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec: // these prepare a statement in one transaction for others
		c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		c.DescriptionCacheCapacity = max(c.DescriptionCacheCapacity, c.StatementCacheCapacity, 1)
		reads, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return err
		}
		s.reads, s.own = reads, true
	}
	return nil
}

// option is a setting in the parameter options of a connection, which the server reads like a command line. In a value a backslash comes before
// each space and each backslash.
var option = regexp.MustCompile(`(?:-c\s*|--)([\w.-]+)=((?:\\.|[^\s\\])*)`)

// settingsOf returns the settings in the parameters of a connection. Poolers may extend the name of the application, and take further options.
func settingsOf(parameters map[string]string) map[string]string {
	settings := maps.Clone(parameters)
	for _, m := range option.FindAllStringSubmatch(parameters["options"], -1) {
		settings[strings.ReplaceAll(m[1], "-", "_")] = strings.NewReplacer(`\\`, `\`, `\`, "").Replace(m[2])
	}
	delete(settings, "options")
	delete(settings, "application_name")
	return settings
}

// keepsSettings returns an error where a pooler has left out a setting of the connection, such as search_path: PgBouncer can be told to ignore them.
func keepsSettings(ctx context.Context, conn *pgconn.PgConn, parameters map[string]string) error {
	for name, value := range settingsOf(parameters) {
		quoted, err := conn.EscapeString(value)
		if err != nil {
			return err
		}
		row, err := wire.Ask(ctx, conn, fmt.Sprintf(`SELECT current_setting('%[1]s', TRUE) IS NOT DISTINCT FROM set_config('%[1]s', '%[2]s', TRUE)`,
			strings.ReplaceAll(name, "'", "''"), quoted))
		if err != nil {
			return err
		}
		if row[0] != "t" {
			return invalid(&findings.Fault{Code: "pooler", Found: fmt.Sprintf("the pooler does not pass on the setting %q", name), Do: "set it for the role or the database (instead of a search_path, use Tables.Schema)"})
		}
	}
	return nil
}

// writePool is a pool of connections for writes.
type writePool struct {
	*pgxpool.Pool
	begin string // begins a transaction that is set up for writes; "" where the sessions are
}

// Begin begins a transaction that is set up for writes.
func (p *writePool) Begin(ctx context.Context) (pgx.Tx, error) {
	return p.BeginTx(ctx, pgx.TxOptions{BeginQuery: p.begin})
}

// attempt makes one attempt of a write that is no part of a transaction. Where sessions are not set up the write has a transaction of its
// own, with the savepoint that a call within InTx has. An error of the server is the same as outside of one.
func (p *writePool) attempt(ctx context.Context, do func(ctx context.Context, q querier) error) error {
	if p.begin != "" {
		begins := &writePool{p.Pool, p.begin + "; " + savepoint}
		err := atomically(ctx, begins, func(tx pgx.Tx) error { return do(ctx, tx) })
		if u := (*undoneError)(nil); errors.As(err, &u) && code(u) != "" && !ambiguous(u.error) {
			return u.error
		}
		return err
	}
	conn, err := p.Acquire(ctx)
	if err != nil {
		return &undoneError{err} // nothing was sent
	}
	defer conn.Release()
	return do(ctx, conn)
}
