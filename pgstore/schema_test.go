package pgstore_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// Where all tables exist, CreateTables creates nothing and needs no right to create, not even in the first schema of the search_path.
func TestCreateTablesWithoutTheRight(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	openAt(t, at, pgstore.Options{CreateTables: true, TagsIndex: true})
	role, as := asRole(t, at)
	run(t, at, "GRANT SELECT, INSERT, UPDATE, DELETE ON event_journal, snapshot, durable_state, akka_projection_timestamp_offset_store, annals_projection_epoch TO "+role)
	s := openAt(t, as, pgstore.Options{CreateTables: true, TagsIndex: true})
	appendOne(t, s, "T|1", 0)
	run(t, at, "DROP TABLE annals_projection_epoch")
	_, err := pgstore.Open(t.Context(), pool(t, as), pgstore.Options{CreateTables: true})
	wantKind(t, err, annals.ErrInvalid)

	first := postgres.Schema(t)
	run(t, at, "CREATE TABLE annals_projection_epoch (projection_name TEXT NOT NULL, slice_from INT NOT NULL, slice_to INT NOT NULL, epoch BIGINT NOT NULL, through_time TIMESTAMPTZ, through_seq_nr BIGINT, through_id VARCHAR(255), newest_time TIMESTAMPTZ, PRIMARY KEY (projection_name, slice_from, slice_to))")
	path := parsed(t, first).Query().Get("search_path") + "," + parsed(t, at).Query().Get("search_path")
	s = openAt(t, with(t, at, "search_path="+path), pgstore.Options{CreateTables: true})
	if n := len(all(t, s, "T|1")); n != 1 {
		t.Errorf("%d events by a search_path of two schemas, want the one in the second", n)
	}
	if n := count(t, first, "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace"); n != 0 {
		t.Errorf("%d tables and indexes in the first schema of the search_path, want none", n)
	}
}

// Names of tables may have PostgreSQL's maximum length. The names of their indexes are then cut between characters, and stay different.
func TestIndexesOfLongNames(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	long := strings.Repeat("é", 30)
	openAt(t, at, pgstore.Options{CreateTables: true, TagsIndex: true, Tables: pgstore.Tables{Journal: strings.Repeat("é", 31), State: "state"},
		StateTypes: map[string]annals.StateType[pgx.Tx]{"A": {Table: long + "aa"}, "B": {Table: long + "bb"}, "C": {Table: long + "bb"}}})
	if n := count(t, at, "SELECT count(*) FROM pg_indexes WHERE schemaname = current_schema() AND indexname LIKE '%\\_slice\\_idx'"); n != 4 {
		t.Errorf("%d indexes by slice, want one of each of four tables", n)
	}
	if n := count(t, at, "SELECT count(*) FROM pg_indexes WHERE schemaname = current_schema() AND indexname LIKE '%\\_tags\\_idx'"); n != 4 {
		t.Errorf("%d indexes of tags, want one of each of four tables", n)
	}
}

// The index that TagsIndex makes is one that a query by tag uses.
func TestTagsIndexIsUsed(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	seen := &queries{}
	s := openTraced(t, at, seen, pgstore.Options{CreateTables: true, TagsIndex: true})
	run(t, at, `INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, writer, tags)
		SELECT n % 1024, 'T', 'T|' || n, 1, now() - interval '1 day', 20, '', 'x', '', ARRAY['tag ' || n] FROM generate_series(1, 5000) n; ANALYZE event_journal`)
	seen.take()
	events, err := collected(s.Query().Events(t.Context(), annals.Filter{Tag: "tag 77"}))
	if err != nil || len(events) != 1 {
		t.Fatalf("%d events, %v, want one", len(events), err)
	}
	q := seen.take()[0]
	conn, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), "EXPLAIN "+q.SQL, q.Args[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || !strings.Contains(strings.Join(plan, "\n"), "event_journal_tags_idx") {
		t.Errorf("%v; the plan is\n%s", err, strings.Join(plan, "\n"))
	}
	run(t, at, "ALTER TABLE event_journal ALTER tags TYPE VARCHAR(255)[]")
	if events, err := collected(s.Query().Events(t.Context(), annals.Filter{Type: "T", Tag: "tag 77"})); err != nil || len(events) != 1 {
		t.Errorf("VARCHAR: %d events, %v, want one", len(events), err)
	}
}

// Open refuses data partitions of the plugin, names them, and creates no tables.
func TestDataPartitionsAreRefused(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	run(t, at, strings.NewReplacer("TABLE event_journal", "TABLE event_journal_0", "ON event_journal ", "ON event_journal_0 ", "TABLE snapshot", "TABLE snapshot_0",
		"TABLE durable_state", "TABLE durable_state_0", "ON durable_state ", "ON durable_state_0 ").Replace(pekkoTables))
	for _, create := range []bool{false, true} {
		_, err := pgstore.Open(t.Context(), pool(t, at), pgstore.Options{CreateTables: create})
		wantKind(t, err, annals.ErrInvalid)
		for _, name := range []string{"event_journal_0", "snapshot_0", "durable_state_0", "data partitions"} {
			if !strings.Contains(fmt.Sprint(err), name) {
				t.Errorf("%v\ndoes not say %q", err, name)
			}
		}
	}
	if n := count(t, at, "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename IN ('event_journal', 'snapshot', 'durable_state')"); n != 0 {
		t.Errorf("%d tables were made beside the partitions", n)
	}

	// PostgreSQL's own partitions of the journal, and a table of another program, are none of them.
	at = postgres.Schema(t)
	run(t, at, pekkoTables+`; ALTER TABLE event_journal RENAME TO event_journal_0;
		CREATE TABLE event_journal (LIKE event_journal_0 INCLUDING ALL) PARTITION BY LIST (persistence_id);
		ALTER TABLE event_journal ATTACH PARTITION event_journal_0 DEFAULT; CREATE TABLE snapshot_0 (picture BYTEA)`)
	s := openAt(t, at, pgstore.Options{Tables: pgstore.PekkoTables()})
	appendOne(t, s, "T|1", 0)
	appendOne(t, s, "T|1", 1)
	if n := len(all(t, s, "T|1")); n != 2 {
		t.Errorf("%d events in a journal with PostgreSQL's partitions, want 2", n)
	}
	table, indexes := count(t, at, "SELECT pg_table_size('event_journal_0')"), count(t, at, "SELECT pg_indexes_size('event_journal_0')")
	run(t, at, "ANALYZE event_journal")
	if sizes, err := s.Sizes(t.Context()); err != nil || sizes[0].Items != 2 || sizes[0].Bytes < int64(table) || sizes[0].IndexBytes != int64(indexes) || table == 0 || indexes == 0 {
		t.Errorf("%+v, %v, want %d and %d bytes", sizes, err, table, indexes)
	}
}

// The tables that the document shows, those that CreateTables makes and those of Schema are the same, and Migrate has nothing to add.
func TestDocumentedTables(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/stores/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := regexp.MustCompile("(?s)```sql\n(.*?)```").FindSubmatch(page)
	if documented == nil {
		t.Fatal("the document shows no tables")
	}
	setup, err := pgstore.NewSetup(nil, pgstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	script, err := setup.Schema("sql")
	if err != nil {
		t.Fatal(err)
	}
	made := postgres.Schema(t)
	openAt(t, made, pgstore.Options{CreateTables: true})
	for what, sql := range map[string]string{"the document": string(documented[1]), "Schema": script} {
		at := postgres.Schema(t)
		run(t, at, sql)
		if a, b := describe(t, at), describe(t, made); a != b {
			t.Errorf("the tables of %s are\n%s\n\nCreateTables makes\n%s", what, a, b)
		}
		if done, err := newSetup(t, at, pgstore.Options{}).Migrate(t.Context()); err != nil || len(done) != 0 {
			t.Errorf("Migrate does %q after %s, %v", done, what, err)
		}
	}
}

// describe is what the tables and indexes of a schema look like.
func describe(t *testing.T, at string) (all string) {
	t.Helper()
	query(t, at, `SELECT (SELECT string_agg(table_name || '.' || column_name || ' ' || data_type || coalesce(character_maximum_length::text, '') || is_nullable || coalesce(column_default, ''), E'\n' ORDER BY table_name, column_name)
			FROM information_schema.columns WHERE table_schema = current_schema())
		|| (SELECT string_agg(replace(indexdef, current_schema(), ''), E'\n' ORDER BY indexname) FROM pg_indexes WHERE schemaname = current_schema())
		|| coalesce((SELECT string_agg(description, E'\n') FROM pg_description JOIN pg_class c ON objoid = c.oid WHERE relnamespace = current_schema()::regnamespace), '')`, nil, &all)
	return all
}

// Migrate adds what the tables of a plugin lack, once, however many processes run it, and returns what it added. Afterwards the store has
// the Capabilities that the columns are for. CreateTables changes no table that exists.
func TestMigrate(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	run(t, at, pekkoTables+"; DROP TABLE annals_projection_epoch; DROP INDEX durable_state_slice_idx")
	o := pgstore.Options{Tables: pgstore.PekkoTables(), StateTypes: map[string]annals.StateType[pgx.Tx]{"Thing": {Table: "thing"}}}
	before := describe(t, at)
	pending, err := newSetup(t, at, o).Pending(t.Context())
	if err != nil || len(pending) != 4+1+2+2 || describe(t, at) != before {
		t.Errorf("pending: %q, %v", pending, err)
	}
	results := make(chan []string)
	for range 4 {
		go func() {
			done, err := newSetup(t, at, o).Migrate(t.Context())
			if err != nil {
				t.Error(err)
			}
			results <- done
		}()
	}
	var done []string
	for range 4 {
		done = append(done, <-results...)
	}
	if !slices.Equal(done, pending) {
		t.Errorf("four processes did\n%q, want what was pending\n%q", done, pending)
	}
	if s := openAt(t, at, o); !s.Capabilities().StateMetadata || !s.Capabilities().IdempotentState {
		t.Errorf("capabilities after Migrate: %+v", s.Capabilities())
	}

	run(t, at, "ALTER TABLE annals_projection_epoch DROP through_time, DROP through_seq_nr, DROP through_id, DROP newest_time") // as an older release made it
	_, err = pgstore.Open(t.Context(), pool(t, at), o)
	wantKind(t, err, annals.ErrInvalid)
	if done, err := newSetup(t, at, o).Migrate(t.Context()); len(done) != 4 || err != nil {
		t.Errorf("of a table of epochs of an older release: %q, %v", done, err)
	}
	openAt(t, at, o)

	at = postgres.Schema(t)
	run(t, at, pekkoTables+"; DROP TABLE annals_projection_epoch")
	if _, err := newSetup(t, at, pgstore.Options{Tables: pgstore.PekkoTables()}).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, at, "ALTER TABLE durable_state DROP meta_ser_id, DROP meta_ser_manifest, DROP meta_payload")
	before = describe(t, at)
	o.CreateTables, o.StateTypes = true, nil
	if s := openAt(t, at, o); describe(t, at) != before || s.Capabilities().StateMetadata {
		t.Error("CreateTables changed a table")
	}
	_, err = pgstore.NewSetup(pool(t, at), pgstore.Options{MaxEvents: -1})
	wantKind(t, err, annals.ErrInvalid)
}

// A Setup without a pool shows the schema, and the rest is refused.
func TestSetupWithoutAPool(t *testing.T) {
	t.Parallel()
	s, err := pgstore.NewSetup(nil, pgstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := s.Pending(t.Context())
		wantKind(t, err, annals.ErrInvalid)
		_, err = s.Migrate(t.Context())
		wantKind(t, err, annals.ErrInvalid)
		_, err = s.Examine(t.Context())
		wantKind(t, err, annals.ErrInvalid)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
