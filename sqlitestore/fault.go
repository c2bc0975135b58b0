package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/findings"
)

// openFault returns err, an error of Open, as an *annals.Error. ErrInvalid says that the file is no database or cannot be written.
func openFault(err error) error {
	kind := kindOf(err)
	if is(err, lib.SQLITE_NOTADB, lib.SQLITE_ERROR) || cannotWrite(err) { // SQLITE_ERROR: another program has created a table with a name of ours
		kind = annals.ErrInvalid
	}
	if e := (*annals.Error)(nil); errors.As(err, &e) {
		kind, err = e.Kind, e.Err
	}
	return &annals.Error{Op: "open", Kind: kind, Err: err}
}

// cannotWrite reports whether err says that the file or its folder cannot be used before it or its rights are changed.
func cannotWrite(err error) bool {
	switch c := code(err); c & 0xff {
	case lib.SQLITE_CANTOPEN, lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_AUTH:
		return c != lib.SQLITE_READONLY_DBMOVED
	}
	return unusable(err)
}

// kindOf is the Kind of an error of SQLite, database/sql or the file system. Except for a COMMIT, see uncertain, such an error means
// that nothing was written.
func kindOf(err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return annals.ErrUnavailable
	case errors.Is(err, sql.ErrTxDone), errors.Is(err, sql.ErrConnDone):
		return annals.ErrClosed
	case breaksRule(err):
		return annals.ErrConstraint
	}
	switch code(err) {
	case lib.SQLITE_READONLY_DBMOVED, lib.SQLITE_IOERR_DATA, lib.SQLITE_IOERR_CORRUPTFS:
		return annals.ErrCorrupt
	}
	switch code(err) & 0xff {
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return annals.ErrCorrupt
	case lib.SQLITE_ERROR:
		if strings.Contains(err.Error(), "malformed JSON") { // in the column tags; SQLite has no code for it
			return annals.ErrCorrupt
		}
	case lib.SQLITE_TOOBIG:
		return annals.ErrTooLarge
	}
	return annals.ErrUnavailable
}

// uncertain reports whether a COMMIT that failed with err may still be on the disk: after a failed write or sync of the log, the
// recovery after a crash may find all of its frames.
func uncertain(err error) bool {
	return !is(err, lib.SQLITE_BUSY, lib.SQLITE_CONSTRAINT,
		lib.SQLITE_ERROR) // SQLite has rolled the transaction back already
}

// busy reports whether err says that another connection holds the lock: try again.
func busy(err error) bool {
	return is(err, lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL)
}

// breaksRule reports whether err says that a constraint of a table refused the write.
func breaksRule(err error) bool {
	return is(err, lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH) && code(err) != lib.SQLITE_CONSTRAINT_COMMITHOOK // of atCommit
}

// isNull reports whether err says that a column must not be NULL.
func isNull(err error) bool { return code(err) == lib.SQLITE_CONSTRAINT_NOTNULL }

// isTwice reports whether err says that there is a row with the same key.
func isTwice(err error) bool {
	return code(err) == lib.SQLITE_CONSTRAINT_PRIMARYKEY || code(err) == lib.SQLITE_CONSTRAINT_UNIQUE
}

// is reports whether err has one of the primary codes.
func is(err error, codes ...int) bool { return slices.Contains(codes, code(err)&0xff) }

func code(err error) int {
	if err == nil {
		return 0
	}
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// withdrawn is the error of a call whose context ended before anything was written.
func withdrawn(ctx context.Context) error {
	return &annals.Error{Kind: annals.ErrUnavailable, Err: ctx.Err()}
}

func invalid(reason string) error {
	return &annals.Error{Kind: annals.ErrInvalid, Err: errors.New(reason)}
}

// refusal is ErrInvalid for something that Open refuses in the file.
func refusal(code, found, do string) error {
	return &annals.Error{Kind: annals.ErrInvalid, Err: &findings.Fault{Code: code, Schema: true, Found: found, Do: do}}
}

var errNoWAL = refusal("journal-mode", "the file has no write-ahead log", "Migrate turns it on")
