package pgstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

func invalid(err error) *annals.Error { return &annals.Error{Kind: annals.ErrInvalid, Err: err} }

func conflict(after, last annals.SeqNr) *annals.Error {
	return &annals.Error{After: after, Last: last, Kind: annals.ErrConflict}
}

// faultOf is fault with the operation's name, for operations without a driver.Store. It returns nil for nil.
func faultOf(op string, err error) error {
	if err == nil {
		return nil
	}
	named := *fault(err)
	named.Op = op
	return &named
}

// Fault is called with every error. A connection that the server has refused may be one of the caller's pool.
func (v *view) Fault(err error) error {
	if code(err) == tooManyConnections {
		v.s.listener.giveWay()
	}
	return fault(err)
}

// fault translates an error of pgx or of the server.
func fault(err error) *annals.Error {
	if own := (*annals.Error)(nil); errors.As(err, &own) {
		return own
	}
	if u := (*undoneError)(nil); errors.As(err, &u) {
		err = u.error
	}
	if l := (*lostError)(nil); errors.As(err, &l) {
		err = l.error
	}
	e := &annals.Error{Kind: annals.ErrUnavailable, Err: err}
	if server := (*pgconn.PgError)(nil); errors.As(err, &server) {
		e.Kind, e.Err = kind(server), stripped(server)
	}
	if unreadable(err) {
		e.Kind = annals.ErrCorrupt
	}
	if unencodable(err) {
		e.Kind, e.Err = annals.ErrInvalid, errEncoding
	}
	if errors.As(err, new(*pgconn.ParseConfigError)) {
		e.Kind = annals.ErrInvalid
	}
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		e.Kind, e.Err = annals.ErrInvalid, errIgnored
	}
	return e
}

// errIgnored is the error of a COMMIT that the server answered with a ROLLBACK.
var errIgnored = errors.New("the function ignored an error of the server: everything was rolled back")

// ambiguous reports whether a write that failed with err may nevertheless have been done, such as when the connection broke before the
// answer. A server's ERROR means that it was undone; with a FATAL error, or one of a pooler that lost its connection, the commit may have
// happened.
func ambiguous(err error) bool {
	if errors.As(err, new(*lostError)) {
		return true
	}
	if undone(err) || unreadable(err) || unencodable(err) {
		return false
	}
	if server := (*pgconn.PgError)(nil); errors.As(err, &server) {
		return fatal(server) || strings.HasPrefix(server.Code, "08")
	}
	return !errors.Is(err, pgx.ErrTxCommitRollback)
}

// lostError is the error of a COMMIT without an answer.
type lostError struct{ error }

func (e *lostError) Unwrap() error { return e.error }

// unreadable reports whether err is about a stored value of an unexpected kind, which another attempt would find again.
func unreadable(err error) bool { return errors.As(err, new(pgx.ScanArgError)) }

// unencodable reports whether pgx could not encode an argument of a statement, as no further attempt can. It has no type for this error, whose text has the
// argument.
func unencodable(err error) bool { return strings.HasPrefix(err.Error(), "failed to encode args[") }

var errEncoding = errors.New("a value is not what its column takes: the type of the column may have been changed")

// corrupt is the error of a row of id that cannot be read.
func corrupt(id string, at annals.SeqNr, err error) error {
	return &annals.Error{ID: annals.PersistenceID(id), Kind: annals.ErrCorrupt, Err: &ability.Damage{ID: annals.PersistenceID(id), From: at, To: at, Err: fmt.Errorf("at %d: %w", at, err)}}
}

// undone reports whether err alone proves that nothing was written.
func undone(err error) bool {
	return pgconn.SafeToRetry(err) || errors.As(err, new(*undoneError)) || errors.As(err, new(*pgconn.ConnectError)) || errors.As(err, new(*pgconn.ParseConfigError))
}

// undoneError is the error of a write that certainly did nothing: it had no connection, or its transaction was not committed.
type undoneError struct{ error }

func (e *undoneError) Unwrap() error { return e.error }

func fatal(e *pgconn.PgError) bool {
	severity := e.SeverityUnlocalized
	if severity == "" {
		severity = e.Severity
	}
	return severity == "FATAL" || severity == "PANIC"
}

// SQLSTATEs that the store acts on.
const (
	uniqueViolation      = "23505"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	queryCanceled        = "57014"
	featureNotSupported  = "0A000" // also: cached plan must not change result type
	invalidStatementName = "26000"
	readOnlyTransaction  = "25006"
	tooManyConnections   = "53300" // of the server, the role or the database

	duplicateStatementName = "42P05" // from a pooler that shares prepared statements between clients
)

// kind is the kind of a server's error. Errors whose cause an operator or a developer has to fix are not ErrUnavailable, because callers retry that.
func kind(e *pgconn.PgError) error {
	switch {
	case strings.HasPrefix(e.Code, "28"), e.Code == "3D000", e.Code == "3F000": // no such user, password, database, schema
		return annals.ErrInvalid
	case strings.HasPrefix(e.Code, "42") && e.Code != duplicateStatementName: // no right to it, no such table or column
		return annals.ErrInvalid
	case e.Code == featureNotSupported && e.Routine != "RevalidateCachedQuery": // that one is an outdated statement
		return annals.ErrUnsupported
	case strings.HasPrefix(e.Code, "22"): // data exception: a value that its column does not take
		return annals.ErrInvalid
	case strings.HasPrefix(e.Code, "23"), e.Code == "P0001", strings.HasPrefix(e.Code, "44"): // constraint, trigger, view
		return annals.ErrConstraint
	case strings.HasPrefix(e.Code, "54"): // program limit exceeded, such as an index row
		return annals.ErrTooLarge
	case e.Code == "XX001", e.Code == "XX002": // data or index corrupted
		return annals.ErrCorrupt
	}
	return annals.ErrUnavailable
}

// retryable reports whether the server undid the write because of other transactions, or because a prepared statement is outdated.
func retryable(err error) bool {
	c := code(err)
	return c == serializationFailure || c == deadlockDetected || outdated(err)
}

// outdated reports whether a prepared statement cannot be used any more, because its table was changed or the server has dropped it.
func outdated(err error) bool {
	c := code(err)
	return c == featureNotSupported || c == invalidStatementName
}

func unique(err error) bool { return code(err) == uniqueViolation }

// code is the SQLSTATE of an error of the server; "" for others.
func code(err error) string {
	server := (*pgconn.PgError)(nil)
	if errors.As(err, &server) {
		return server.Code
	}
	return ""
}

// stripped is e without what may contain stored values: the details, and some messages.
func stripped(e *pgconn.PgError) *pgconn.PgError {
	s := &pgconn.PgError{Severity: e.Severity, SeverityUnlocalized: e.SeverityUnlocalized, Code: e.Code, Message: e.Message,
		SchemaName: e.SchemaName, TableName: e.TableName, ColumnName: e.ColumnName, DataTypeName: e.DataTypeName,
		ConstraintName: e.ConstraintName, Routine: e.Routine}
	if strings.HasPrefix(e.Code, "22") || e.Code == "P0001" {
		s.Message = "the server refused a value"
	}
	return s
}

// constraint reports whether the server refused a row for a constraint.
func constraint(err error) bool { return strings.HasPrefix(code(err), "23") }
