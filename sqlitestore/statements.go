package sqlitestore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"io"
	"strings"
	"sync"

	"modernc.org/sqlite"
)

// maxStatements bounds the prepared statements of one connection. A store has fewer texts than this, except for those made from
// filters, criteria and subsets of bound columns, of which there can be any number.
const maxStatements = 64

// statements prepares texts on one connection and keeps those used last. One goroutine at a time uses it, until end. It calls the driver
// directly: database/sql would take as long again for each row, and copy its payload once more. A transaction that database/sql has
// begun on the connection holds for the statements, too.
type statements struct {
	conn  *sql.Conn
	known map[string]*statement
	uses  int64

	mu    sync.Mutex
	ended error // of every use from now on; nil before end
}

type statement struct {
	sqldriver.Stmt
	used   int64                  // the value of statements.uses at the last use
	named  []sqldriver.NamedValue // of the use that is under way
	values values                 // for its rows
}

// unnamed begins a query with so many columns. Their names are empty then: the driver allocates memory for the name and the type of each column in
// each query.
func unnamed(columns int) string {
	return `SELECT NULL AS ""` + strings.Repeat(`, NULL AS ""`, columns-1) + ` WHERE 0 UNION ALL `
}

// use runs fn with the prepared text.
func (s *statements) use(ctx context.Context, text string, fn func(*statement) error) error {
	return s.raw(func(conn any) error {
		stmt, err := s.of(ctx, conn.(sqldriver.ConnPrepareContext), text)
		if err != nil {
			return err
		}
		defer func() { // the values may be large
			clear(stmt.named)
			clear(stmt.values.row)
		}()
		return fn(stmt)
	})
}

// raw runs fn with the driver's connection, unless s has been ended.
func (s *statements) raw(fn func(conn any) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return s.ended
	}
	return s.conn.Raw(fn)
}

func (s *statements) of(ctx context.Context, conn sqldriver.ConnPrepareContext, text string) (*statement, error) {
	s.uses++
	if known, ok := s.known[text]; ok {
		known.used = s.uses
		return known, nil
	}
	stmt, err := conn.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	if s.known == nil {
		s.known = map[string]*statement{}
	}
	if len(s.known) == maxStatements {
		s.closeOldest()
	}
	known := &statement{Stmt: stmt, used: s.uses}
	s.known[text] = known
	return known, nil
}

// closeOldest closes the statement whose last use is the longest ago.
func (s *statements) closeOldest() {
	oldest := ""
	for text, known := range s.known {
		if oldest == "" || known.used < s.known[oldest].used {
			oldest = text
		}
	}
	_ = s.known[oldest].Close()
	delete(s.known, oldest)
}

// exec runs text.
func (s *statements) exec(ctx context.Context, text string, args ...any) error {
	return s.use(ctx, text, func(stmt *statement) error {
		named, err := stmt.bound(args)
		if err != nil {
			return err
		}
		_, err = stmt.Stmt.(sqldriver.StmtExecContext).ExecContext(ctx, named)
		return err
	})
}

// row decodes the first row; false when there is none.
func (s *statements) row(ctx context.Context, text string, args []any, decode func(*values)) (bool, error) {
	found := false
	err := s.rows(ctx, text, args, func(v *values) (bool, error) {
		found = true
		decode(v)
		return false, v.corrupt()
	})
	return found && err == nil, err
}

// rows calls each for every row until it returns false or an error. What each was given is right only when rows returns nil: a
// statement can fail after its first rows.
func (s *statements) rows(ctx context.Context, text string, args []any, each func(*values) (bool, error)) error {
	return s.use(ctx, text, func(stmt *statement) (err error) {
		named, err := stmt.bound(args)
		if err != nil {
			return err
		}
		rows, err := stmt.Stmt.(sqldriver.StmtQueryContext).QueryContext(ctx, named)
		if err != nil {
			return err
		}
		defer func() {
			if closed := rows.Close(); err == nil {
				err = closed
			}
		}()
		v := &stmt.values
		if v.row == nil {
			v.row = make([]sqldriver.Value, len(rows.Columns()))
		}
		for {
			switch err := rows.Next(v.row); {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			}
			v.next, v.err, v.code = 0, nil, ""
			if more, err := each(v); err != nil || !more {
				return err
			}
		}
	})
}

// version is a number that changes when another connection has changed the file, as soon as a transaction begins, and with each COMMIT of this
// one.
func (s *statements) version() (version uint32, err error) {
	err = s.raw(func(conn any) (err error) {
		version, err = conn.(sqlite.FileControl).FileControlDataVersion("main")
		return err
	})
	return version, err
}

// bound are args as database/sql would hand them to the driver, until the next use.
func (s *statement) bound(args []any) ([]sqldriver.NamedValue, error) {
	s.named = s.named[:0]
	for i, arg := range args {
		value, err := sqldriver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return nil, err
		}
		s.named = append(s.named, sqldriver.NamedValue{Ordinal: i + 1, Value: value})
	}
	return s.named, nil
}

// end waits for the use that is under way and closes the statements. Every later use is err. It may be called from any goroutine.
func (s *statements) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = err
	_ = s.close()
}

// close closes all statements. Those of a connection outlive it otherwise, and the file's log with them.
func (s *statements) close() error {
	return s.conn.Raw(func(any) error {
		var errs []error
		for _, known := range s.known {
			errs = append(errs, known.Close())
		}
		clear(s.known)
		return errors.Join(errs...)
	})
}
