package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/annals-go/annals"
)

// openFault is err of Open as an *annals.Error. A file that is no database, or cannot be written, is the caller's mistake.
func openFault(err error) error {
	kind := kindOf(err)
	switch code(err) & 0xff {
	case lib.SQLITE_NOTADB, lib.SQLITE_ERROR: // SQLITE_ERROR: another program has created a table with a name of ours
		kind = annals.ErrInvalid
	}
	if cannotWrite(err) {
		kind = annals.ErrInvalid
	}
	if e := (*annals.Error)(nil); errors.As(err, &e) {
		kind, err = e.Kind, e.Err
	}
	return &annals.Error{Op: "open", Kind: kind, Err: err}
}

// cannotWrite reports whether err says that a right is missing, or something else that somebody has to change.
func cannotWrite(err error) bool {
	switch c := code(err); c & 0xff {
	case lib.SQLITE_CANTOPEN, lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_AUTH:
		return c != lib.SQLITE_READONLY_DBMOVED
	}
	return unusable(err)
}

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
		if strings.Contains(err.Error(), "malformed JSON") { // tags; there is no code for it
			return annals.ErrCorrupt
		}
	case lib.SQLITE_TOOBIG:
		return annals.ErrTooLarge
	}
	return annals.ErrUnavailable
}

// uncertain reports whether a COMMIT that failed with err may have reached the disk all the same: the frames of a
// failed write or sync can be found whole by the recovery after a crash.
func uncertain(err error) bool {
	switch code(err) & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_CONSTRAINT:
		return false
	case lib.SQLITE_ERROR: // there is no transaction any more
		return false
	}
	return true
}

// busy reports whether err says that another connection holds the lock: try again.
func busy(err error) bool {
	switch code(err) & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// breaksRule reports whether err says that a rule of a table does not allow what was written.
func breaksRule(err error) bool {
	switch code(err) & 0xff {
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH:
		return true
	}
	return false
}

// isNull reports whether err says that a column must not be NULL.
func isNull(err error) bool { return code(err) == lib.SQLITE_CONSTRAINT_NOTNULL }

func code(err error) int {
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

func withdrawn(ctx context.Context) error {
	return &annals.Error{Kind: annals.ErrUnavailable, Err: ctx.Err()}
}

func invalid(reason string) error {
	return &annals.Error{Kind: annals.ErrInvalid, Err: errors.New(reason)}
}
