package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/storetest"
)

func TestConformance(t *testing.T) {
	var by routes
	c := config(pgstore.Options{})
	c.Open = func(tb testing.TB) annals.Store { return by.open(tb, tables(tb, pgstore.Options{}), pgstore.Options{}) }
	c.LoseAnswer = func(tb testing.TB, s annals.Store) func() {
		kind := postgres.Write
		if strings.Contains(tb.Name(), "/TX-") {
			kind = postgres.Commit
		}
		return by.lose(tb, s, kind)
	}
	c.Undo = func(tb testing.TB, s annals.Store) {
		for _, table := range []string{"event_journal", "durable_state"} {
			run(tb, urls.of(s), fmt.Sprintf("DROP SEQUENCE IF EXISTS undo_%[1]s; DROP FUNCTION IF EXISTS undo_%[1]s CASCADE;"+undoing, table, 0, 1))
		}
	}
	c.Damage = damaged
	storetest.Run(t, c)
}

func TestConformanceOfPluginDeletes(t *testing.T) {
	c := config(pgstore.Options{PluginDeletes: true})
	c.Short, c.Only = true, storetest.Parts{Journal: true, Snapshots: true} // what deletes change
	storetest.Run(t, c)
}

// The stores have pools of one connection.
func TestConformanceOnPekkoTables(t *testing.T) {
	c := config(pgstore.Options{Tables: pgstore.PekkoTables(), PluginOffsets: true})
	c.Short, c.Only = true, storetest.Parts{Journal: true, States: true, Offsets: true} // what other tables change
	c.OpenObserved = func(tb testing.TB, o annals.Observer) annals.Store {
		url := postgres.Tables(tb, "Pekko", func(url string) { run(tb, url, pekkoTables) })
		s := openAt(tb, url+"&pool_max_conns=1", pgstore.Options{Tables: pgstore.PekkoTables(), PluginOffsets: true, Observer: o})
		urls.Store(s, url) // for statements of the test
		return s
	}
	c.Open = func(tb testing.TB) annals.Store { return c.OpenObserved(tb, nil) }
	storetest.Run(t, c)
}

func TestStateTypes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		create, table string
		tables        pgstore.Tables
	}{
		"common table": {create: `ALTER TABLE durable_state ADD COLUMN name TEXT, ADD COLUMN points BIGINT`},
		"own table":    {create: `CREATE TABLE thing (LIKE durable_state INCLUDING ALL, name TEXT, points BIGINT)`, table: "thing"},
		"Pekko's tables": {create: `CREATE TABLE thing (LIKE durable_state INCLUDING ALL, name TEXT, points BIGINT)`, table: "thing",
			tables: pgstore.PekkoTables()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.RunStateTypes(t, storetest.StateTypes[pgx.Tx]{
				Open: func(tb testing.TB, st annals.StateType[pgx.Tx]) annals.Store {
					url := postgres.Tables(tb, name, func(url string) {
						if name == "Pekko's tables" {
							run(tb, url, pekkoTables)
						} else {
							openAt(tb, url, pgstore.Options{CreateTables: true})
						}
						run(tb, url, c.create+`; CREATE TABLE counters (counter TEXT PRIMARY KEY, n INT NOT NULL CHECK (n < 1000000))`)
					})
					st.Table = c.table
					return openAt(tb, url, pgstore.Options{Tables: c.tables, StateTypes: map[string]annals.StateType[pgx.Tx]{"Thing": st}})
				},
				Count: func(ctx context.Context, tx pgx.Tx, counter string) error {
					_, err := tx.Exec(ctx, `INSERT INTO counters VALUES ($1, 1) ON CONFLICT (counter) DO UPDATE SET n = counters.n + 1`, counter)
					return err
				},
				Counted: func(tb testing.TB, s annals.Store, counter string) (n int) {
					query(tb, urls.of(s), `SELECT coalesce(sum(n), 0) FROM counters WHERE counter = $1`, []any{counter}, &n)
					return n
				},
				Refuse: func(ctx context.Context, tx pgx.Tx) error {
					_, err := tx.Exec(ctx, `INSERT INTO counters VALUES ('too many', 1000000)`)
					return err
				},
				Short: true,
			})
		})
	}
}

func config(o pgstore.Options) storetest.Config {
	return storetest.Config{
		Open: func(tb testing.TB) annals.Store { return open(tb, o) },
		OpenObserved: func(tb testing.TB, observer annals.Observer) annals.Store {
			observed := o
			observed.Observer = observer
			return open(tb, observed)
		},
		Reopen: func(tb testing.TB, s annals.Store) annals.Store {
			return openAt(tb, urls.of(s), o)
		},
		LoseEvent: func(tb testing.TB, s annals.Store, id annals.PersistenceID, n annals.SeqNr) {
			run(tb, urls.of(s), fmt.Sprintf("DELETE FROM event_journal WHERE persistence_id = '%s' AND seq_nr = %d", id, n))
		},
		Short: testing.Short(),
	}
}

// pekkoTables are as pekko-persistence-r2dbc and pekko-projection-r2dbc create them: durable_state has the key of two columns, snapshots
// have no times or tags, and no table has additional columns.
const pekkoTables = `
CREATE TABLE event_journal (slice INT NOT NULL, entity_type VARCHAR(255) NOT NULL, persistence_id VARCHAR(255) NOT NULL, seq_nr BIGINT NOT NULL,
	db_timestamp TIMESTAMP WITH TIME ZONE NOT NULL, event_ser_id INTEGER NOT NULL, event_ser_manifest VARCHAR(255) NOT NULL, event_payload BYTEA NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL, writer VARCHAR(255) NOT NULL, adapter_manifest VARCHAR(255), tags TEXT ARRAY,
	meta_ser_id INTEGER, meta_ser_manifest VARCHAR(255), meta_payload BYTEA, PRIMARY KEY (persistence_id, seq_nr));
CREATE INDEX event_journal_slice_idx ON event_journal (slice, entity_type, db_timestamp, seq_nr);
CREATE TABLE snapshot (slice INT NOT NULL, entity_type VARCHAR(255) NOT NULL, persistence_id VARCHAR(255) NOT NULL, seq_nr BIGINT NOT NULL,
	write_timestamp BIGINT NOT NULL, ser_id INTEGER NOT NULL, ser_manifest VARCHAR(255) NOT NULL, snapshot BYTEA NOT NULL,
	meta_ser_id INTEGER, meta_ser_manifest VARCHAR(255), meta_payload BYTEA, PRIMARY KEY (persistence_id));
CREATE TABLE durable_state (slice INT NOT NULL, entity_type VARCHAR(255) NOT NULL, persistence_id VARCHAR(255) NOT NULL, revision BIGINT NOT NULL,
	db_timestamp TIMESTAMP WITH TIME ZONE NOT NULL, state_ser_id INTEGER NOT NULL, state_ser_manifest VARCHAR(255), state_payload BYTEA NOT NULL,
	tags TEXT ARRAY, PRIMARY KEY (persistence_id, revision));
CREATE INDEX durable_state_slice_idx ON durable_state (slice, entity_type, db_timestamp, revision);
CREATE TABLE projection_timestamp_offset_store (projection_name VARCHAR(255) NOT NULL, projection_key VARCHAR(255) NOT NULL, slice INT NOT NULL,
	persistence_id VARCHAR(255) NOT NULL, seq_nr BIGINT NOT NULL, timestamp_offset TIMESTAMP WITH TIME ZONE NOT NULL,
	timestamp_consumed TIMESTAMP WITH TIME ZONE NOT NULL, PRIMARY KEY (slice, projection_name, timestamp_offset, persistence_id, seq_nr));
CREATE TABLE annals_projection_epoch (projection_name VARCHAR(255) NOT NULL, slice_from INT NOT NULL, slice_to INT NOT NULL, epoch BIGINT NOT NULL, through_time TIMESTAMPTZ, through_seq_nr BIGINT, through_id VARCHAR(255), newest_time TIMESTAMPTZ,
	PRIMARY KEY (projection_name, slice_from, slice_to));`
