package pgstore_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals/internal/followtest"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

func TestProjections(t *testing.T) {
	t.Parallel()
	followtest.Projections(t, func(t *testing.T) followtest.Target[pgx.Tx] {
		url := postgres.Database(t)
		run(t, url, "CREATE TABLE entries (id TEXT, seq_nr BIGINT, stamp BIGINT)")
		read := pool(t, url)
		return followtest.Target[pgx.Tx]{
			Store: openAt(t, with(t, url, "pool_max_conns=16"), pgstore.Options{CreateTables: true}),
			Add: func(ctx context.Context, tx pgx.Tx, e followtest.Entry) error {
				_, err := tx.Exec(ctx, "INSERT INTO entries VALUES ($1, $2, $3)", string(e.ID), int64(e.SeqNr), e.Stamp)
				return err
			},
			Entries: func(ctx context.Context) ([]followtest.Entry, error) {
				rows, err := read.Query(ctx, "SELECT id, seq_nr, stamp FROM entries")
				if err != nil {
					return nil, err
				}
				return pgx.CollectRows(rows, pgx.RowToStructByPos[followtest.Entry])
			},
		}
	})
}
