package readmodel

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/pgstore"
)

// lockPostgres lets one server after the other create the tables: CREATE TABLE IF NOT EXISTS fails when two do so at once.
const lockPostgres = `SELECT pg_advisory_xact_lock(hashtextextended('groupchat create tables', 0))`

func execPostgres(tx pgx.Tx) exec {
	return func(ctx context.Context, text string, args ...any) (int64, error) {
		done, err := tx.Exec(ctx, text, args...)
		return done.RowsAffected(), err
	}
}

func readPostgres(s *pgstore.Store) func(context.Context, func(scan) error, string, ...any) error {
	return func(ctx context.Context, each func(scan) error, text string, args ...any) error {
		return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx, _ annals.Store) error {
			rows, err := tx.Query(ctx, text, args...)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				if err := each(rows.Scan); err != nil {
					return err
				}
			}
			return rows.Err()
		})
	}
}
