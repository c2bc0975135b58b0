package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/annals-go/annals"
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
			Breaks: map[string]func(ctx context.Context, tx pgx.Tx){
				"a statement that fails": func(ctx context.Context, tx pgx.Tx) { _, _ = tx.Exec(ctx, "INSERT INTO missing VALUES (1)") },
			},
			Entries: func(ctx context.Context) ([]followtest.Entry, error) {
				rows, err := read.Query(ctx, "SELECT id, seq_nr, stamp FROM entries")
				if err != nil {
					return nil, err
				}
				return pgx.CollectRows(rows, pgx.RowToStructByPos[followtest.Entry])
			},
			Deny: func(ctx context.Context, denies bool) error { // the tables are renamed
				from, to := "", "_away"
				if !denies {
					from, to = to, from
				}
				for {
					_, err := read.Exec(ctx, fmt.Sprintf(`DO $$ DECLARE t text; BEGIN
						FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'entries' LOOP
							EXECUTE format('ALTER TABLE %%I RENAME TO %%I', t, regexp_replace(t, '%s$', '') || '%s');
						END LOOP; END $$`, from, to))
					if e := (*pgconn.PgError)(nil); !errors.As(err, &e) || e.Code != "40P01" { // the runner's transactions use the tables in another order
						return err
					}
				}
			},
			Late: map[string]followtest.Late{
				"a transaction that is old": {Warning: "open for longer than Options.Lateness", Begin: func(ctx context.Context) (followtest.Store, error) {
					conn := session(t, url)
					_, err := conn.Exec(ctx, "BEGIN")
					return func(ctx context.Context, _ time.Time, cs ...annals.Commit) error {
						err := writeForeign(ctx, conn, 0, cs...)
						if err == nil {
							_, err = conn.Exec(ctx, "COMMIT")
						}
						return err
					}, err
				}},
				"a writer whose clock is behind": {Begin: func(context.Context) (followtest.Store, error) {
					return func(ctx context.Context, passed time.Time, cs ...annals.Commit) error {
						return writeForeign(ctx, session(t, url), time.Since(passed)+time.Second, cs...) // a request may take a while
					}, nil
				}},
			},
		}
	})
}

// writeForeign stores commits as a plugin does whose clock is behind by so much.
func writeForeign(ctx context.Context, conn *pgx.Conn, behind time.Duration, cs ...annals.Commit) error {
	for _, c := range cs {
		for i, e := range c.Events {
			_, err := conn.Exec(ctx, `INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, writer, db_timestamp, event_ser_id, event_ser_manifest, event_payload)
				VALUES ($1, $2, $3, $4, 'plugin', CURRENT_TIMESTAMP - $5::bigint * interval '1 microsecond', $6, '', $7)`,
				c.ID.Slice(), c.ID.Type(), string(c.ID), int64(c.After)+int64(i)+1, behind.Microseconds(), e.SerializerID, e.Data)
			if err != nil {
				return err
			}
		}
	}
	return nil
}
