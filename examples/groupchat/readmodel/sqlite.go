package readmodel

import (
	"context"
	"database/sql"

	"github.com/annals-go/annals/sqlitestore"
)

func execSQLite(tx *sql.Tx) exec {
	return func(ctx context.Context, text string, args ...any) (int64, error) {
		done, err := tx.ExecContext(ctx, text, args...)
		if err != nil {
			return 0, err
		}
		return done.RowsAffected()
	}
}

func readSQLite(s *sqlitestore.Store) func(context.Context, func(scan) error, string, ...any) error {
	return func(ctx context.Context, each func(scan) error, text string, args ...any) error {
		rows, err := s.DB().QueryContext(ctx, text, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			if err := each(rows.Scan); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}
