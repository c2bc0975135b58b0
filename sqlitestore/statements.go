package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// statements prepares each text once, on the pool, connection or transaction that it belongs to.
type statements struct {
	prepare func(ctx context.Context, text string) (*sql.Stmt, error)
	known   sync.Map // text -> *sql.Stmt
}

func (s *statements) of(ctx context.Context, text string) (*sql.Stmt, error) {
	if stmt, ok := s.known.Load(text); ok {
		return stmt.(*sql.Stmt), nil
	}
	stmt, err := s.prepare(ctx, text)
	if err != nil {
		return nil, err
	}
	if other, taken := s.known.LoadOrStore(text, stmt); taken {
		_ = stmt.Close() // two callers prepared it at once
		return other.(*sql.Stmt), nil
	}
	return stmt, nil
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

// row scans the first row into dest; false when there is none.
func (s *statements) row(ctx context.Context, text string, args []any, dest ...any) (bool, error) {
	found := false
	err := s.rows(ctx, text, args, func(rows *sql.Rows) (bool, error) {
		found = true
		return false, rows.Scan(dest...)
	})
	return found, err
}

// rows calls each for every row until it returns false or an error.
func (s *statements) rows(ctx context.Context, text string, args []any, each func(*sql.Rows) (bool, error)) error {
	stmt, err := s.of(ctx, text)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if more, err := each(rows); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// close ends all statements. Those of a connection outlive it otherwise, and the file's log with them.
func (s *statements) close() error {
	var errs []error
	s.known.Range(func(_, stmt any) bool {
		errs = append(errs, stmt.(*sql.Stmt).Close())
		return true
	})
	return errors.Join(errs...)
}

// within is s inside a transaction of the same pool; it must not outlive tx.
func (s *statements) within(tx *sql.Tx) *statements {
	return &statements{prepare: func(ctx context.Context, text string) (*sql.Stmt, error) {
		stmt, err := s.of(ctx, text)
		if err != nil {
			return nil, err
		}
		return tx.StmtContext(ctx, stmt), nil
	}}
}
