package sqlitestore_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/annals-go/annals/internal/followtest"
	"github.com/annals-go/annals/sqlitestore"
)

func TestProjections(t *testing.T) {
	t.Parallel()
	followtest.Projections(t, func(t *testing.T) followtest.Target[*sql.Tx] {
		path := filepath.Join(t.TempDir(), "annals.db")
		s := openAt(t, path, sqlitestore.Options{Init: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS entries (id TEXT, seq_nr INTEGER, stamp INTEGER)")
			return err
		}})
		db := raw(t, path)
		return followtest.Target[*sql.Tx]{
			Store: s, Beside: openAt(t, path, sqlitestore.Options{}),
			Add: func(ctx context.Context, tx *sql.Tx, e followtest.Entry) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO entries VALUES (?, ?, ?)", string(e.ID), int64(e.SeqNr), e.Stamp)
				return err
			},
			Breaks: map[string]func(ctx context.Context, tx *sql.Tx){
				"Rollback": func(_ context.Context, tx *sql.Tx) { _ = tx.Rollback() },
			},
			Entries: func(ctx context.Context) (all []followtest.Entry, err error) {
				rows, err := db.QueryContext(ctx, "SELECT id, seq_nr, stamp FROM entries")
				if err != nil {
					return nil, err
				}
				defer func() { _ = rows.Close() }()
				for rows.Next() {
					var e followtest.Entry
					if err := rows.Scan(&e.ID, &e.SeqNr, &e.Stamp); err != nil {
						return nil, err
					}
					all = append(all, e)
				}
				return all, rows.Err()
			},
		}
	})
}
