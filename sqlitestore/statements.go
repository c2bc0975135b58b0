package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
)

// maxStatements bounds the prepared statements of one connection. A store has fewer texts than this, but for filters,
// criteria and subsets of bound columns, of which there can be any number.
const maxStatements = 64

// statements prepares texts on one connection or transaction and keeps those used last. One goroutine at a time uses it.
type statements struct {
	prepare func(ctx context.Context, text string) (*sql.Stmt, error)
	known   map[string]*statement
	uses    int64
}

type statement struct {
	*sql.Stmt
	used   int64   // the value of statements.uses at the last use
	values *values // for its rows; nil before the first
}

func (s *statements) of(ctx context.Context, text string) (*statement, error) {
	s.uses++
	if known, ok := s.known[text]; ok {
		known.used = s.uses
		return known, nil
	}
	stmt, err := s.prepare(ctx, text)
	if err != nil {
		return nil, err
	}
	if s.known == nil {
		s.known = map[string]*statement{}
	}
	if len(s.known) == maxStatements {
		s.forgetOldest()
	}
	known := &statement{Stmt: stmt, used: s.uses}
	s.known[text] = known
	return known, nil
}

// forgetOldest closes the statement whose last use is the longest ago.
func (s *statements) forgetOldest() {
	oldest := ""
	for text, known := range s.known {
		if oldest == "" || known.used < s.known[oldest].used {
			oldest = text
		}
	}
	_ = s.known[oldest].Close()
	delete(s.known, oldest)
}

// exec returns how many rows text changed.
func (s *statements) exec(ctx context.Context, text string, args ...any) (int64, error) {
	stmt, err := s.of(ctx, text)
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
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

// rows calls each for every row until it returns false or an error. What each was given is right only when rows returns
// nil: a statement can fail behind its first rows.
func (s *statements) rows(ctx context.Context, text string, args []any, each func(*values) (bool, error)) (err error) {
	stmt, err := s.of(ctx, text)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer func() {
		if closed := rows.Close(); err == nil {
			err = closed
		}
	}()
	if stmt.values == nil {
		if stmt.values, err = newValues(rows); err != nil {
			return err
		}
	}
	for rows.Next() {
		if err := stmt.values.scan(rows); err != nil {
			return err
		}
		if more, err := each(stmt.values); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// close ends all statements. Those of a connection outlive it otherwise, and the file's log with them.
func (s *statements) close() error {
	var errs []error
	for _, known := range s.known {
		errs = append(errs, known.Close())
	}
	clear(s.known)
	return errors.Join(errs...)
}
