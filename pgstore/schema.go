package pgstore

import (
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// object is something that the store uses and that Migrate can make.
type object struct {
	name    string // as to_regclass takes it; of a schema the bare name
	column  string // of the table called name, where the object is a column
	typ     string // of that column, where the object is its type
	comment string // of the table, where the object is the comment
	index   string // how the definition of an index ends
	shared  bool   // it changes a table that the plugins have, too
	ddl     string
}

func statementsOf(objects []object) []string {
	var all []string
	for _, o := range objects {
		all = append(all, o.ddl)
	}
	return all
}

// create makes what is missing, and returns the statements that it ran. Unless all is true it changes no table of the plugins, and none of
// another role. Where nothing is missing it only reads.
func (s *backend) create(ctx context.Context, all bool) (done []string, err error) {
	if missing, err := s.missing(ctx, s.reads, all); err != nil || len(missing) == 0 {
		return nil, err
	}
	err = atomically(ctx, s.reads, func(tx pgx.Tx) error {
		// Processes that create at the same time wait for each other.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('annals create tables', 0))`); err != nil {
			return err
		}
		missing, err := s.missing(ctx, tx, all)
		if err != nil {
			return err
		}
		for _, o := range missing {
			if _, err := tx.Exec(ctx, o.ddl); err != nil {
				return err
			}
		}
		done = statementsOf(missing)
		return nil
	})
	return done, err
}

// missing are the objects that the search_path does not lead to, in the order in which they can be made. A column is missing where its
// table exists.
func (s *backend) missing(ctx context.Context, q querier, all bool) ([]object, error) {
	objects := slices.DeleteFunc(s.objects(), func(o object) bool { return o.shared && !all })
	names, columns, types, comments := make([]string, len(objects)), make([]string, len(objects)), make([]string, len(objects)), make([]string, len(objects))
	for i, o := range objects {
		names[i], columns[i], types[i], comments[i] = o.name, o.column, o.typ, o.comment
	}
	rows, err := q.Query(ctx, `
		SELECT nr::int - 1
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY o (name, of_table, typ, comment, nr)
		WHERE CASE
			WHEN nr = 1 AND $5 <> '' THEN NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = $5)
			WHEN comment <> '' THEN obj_description(to_regclass(name), 'pg_class') IS DISTINCT FROM comment
			WHEN of_table = '' THEN to_regclass(name) IS NULL
			ELSE to_regclass(name) IS NOT NULL AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass(name) AND attname = of_table
				AND NOT attisdropped AND typ IN ('', format_type(atttypid, NULL))) END
			AND ($6 OR of_table = '' AND comment = '' OR to_regclass(name) IS NULL
				OR pg_has_role((SELECT relowner FROM pg_class WHERE oid = to_regclass(name)), 'USAGE'))
		ORDER BY nr`, names, columns, types, comments, s.tables.Schema, all)
	if err != nil {
		return nil, err
	}
	numbers, err := pgx.CollectRows(rows, pgx.RowTo[int])
	missing := make([]object, len(numbers))
	for i, nr := range numbers {
		missing[i] = objects[nr]
	}
	return missing, err
}

// The tables. The payloads, and nothing else, are BYTEA NOT NULL.
const (
	createJournal = `CREATE TABLE "event_journal" (
	slice INT NOT NULL,
	entity_type VARCHAR(255) NOT NULL,
	persistence_id VARCHAR(255) NOT NULL,
	seq_nr BIGINT NOT NULL,
	db_timestamp TIMESTAMPTZ NOT NULL,
	event_ser_id INTEGER NOT NULL,
	event_ser_manifest VARCHAR(255) NOT NULL,
	event_payload BYTEA NOT NULL,
	deleted BOOLEAN DEFAULT FALSE NOT NULL,
	writer VARCHAR(255) NOT NULL,
	adapter_manifest VARCHAR(255),
	tags TEXT[],
	meta_ser_id INTEGER,
	meta_ser_manifest VARCHAR(255),
	meta_payload BYTEA,
	PRIMARY KEY (persistence_id, seq_nr))`

	createSnapshot = `CREATE TABLE "snapshot" (
	slice INT NOT NULL,
	entity_type VARCHAR(255) NOT NULL,
	persistence_id VARCHAR(255) NOT NULL,
	seq_nr BIGINT NOT NULL,
	db_timestamp TIMESTAMPTZ,
	write_timestamp BIGINT NOT NULL,
	ser_id INTEGER NOT NULL,
	ser_manifest VARCHAR(255) NOT NULL,
	snapshot BYTEA NOT NULL,
	tags TEXT[],
	meta_ser_id INTEGER,
	meta_ser_manifest VARCHAR(255),
	meta_payload BYTEA,
	PRIMARY KEY (persistence_id))`

	createState = `CREATE TABLE "durable_state" (
	slice INT NOT NULL,
	entity_type VARCHAR(255) NOT NULL,
	persistence_id VARCHAR(255) NOT NULL,
	revision BIGINT NOT NULL,
	db_timestamp TIMESTAMPTZ NOT NULL,
	state_ser_id INTEGER NOT NULL,
	state_ser_manifest VARCHAR(255),
	state_payload BYTEA NOT NULL,
	tags TEXT[],
	write_ids TEXT,
	meta_ser_id INTEGER,
	meta_ser_manifest VARCHAR(255),
	meta_payload BYTEA,
	PRIMARY KEY (persistence_id))`

	createOffset = `CREATE TABLE "akka_projection_timestamp_offset_store" (
	projection_name VARCHAR(255) NOT NULL,
	projection_key VARCHAR(255) NOT NULL,
	slice INT NOT NULL,
	persistence_id VARCHAR(255) NOT NULL,
	seq_nr BIGINT NOT NULL,
	timestamp_offset TIMESTAMPTZ NOT NULL,
	timestamp_consumed TIMESTAMPTZ NOT NULL,
	PRIMARY KEY (slice, projection_name, timestamp_offset, persistence_id, seq_nr))`

	createEpoch = `CREATE TABLE "annals_projection_epoch" (
	projection_name VARCHAR(255) NOT NULL,
	slice_from SMALLINT NOT NULL,
	slice_to SMALLINT NOT NULL,
	epoch BIGINT NOT NULL,
	through_time TIMESTAMPTZ,
	through_seq_nr BIGINT,
	through_id VARCHAR(255),
	newest_time TIMESTAMPTZ,
	PRIMARY KEY (projection_name, slice_from, slice_to))`
)

// positionColumns are the columns of createEpoch that tables of an older release do not have.
var positionColumns = []string{"through_time", "through_seq_nr", "through_id", "newest_time"}

// objects are all that the store uses, the schema first where it has a name.
func (s *backend) objects() (all []object) {
	t, payload := s.tables, "BYTEA NOT NULL"
	if s.options.JSONB {
		payload = "JSONB NOT NULL"
	}
	if t.Schema != "" {
		all = append(all, object{name: t.Schema, ddl: "CREATE SCHEMA " + quote(t.Schema)})
	}
	table := func(name, create string) {
		fill := strings.NewReplacer(append([]string{`"durable_state"`, t.quoted(name), "BYTEA NOT NULL", payload}, t.names()...)...)
		all = append(all, object{name: t.quoted(name), ddl: fill.Replace(create)})
	}
	column := func(of string, s shape, names []string, shared bool) {
		for _, c := range s.columns {
			if slices.Contains(names, c.Name) {
				all = append(all, object{name: t.quoted(of), column: c.Name, shared: shared, ddl: "ALTER TABLE " + t.quoted(of) + " ADD COLUMN " + c.Definition})
			}
		}
	}
	index := func(of, suffix, columns string) {
		name := indexName(of, suffix)
		all = append(all, object{name: t.quoted(name), index: columns, ddl: "CREATE INDEX " + quote(name) + " ON " + t.quoted(of) + " " + columns})
	}
	tags := func(of string) {
		if s.options.TagsIndex {
			index(of, "_tags_idx", "USING gin (tags)")
		}
	}
	table(t.Journal, createJournal)
	index(t.Journal, "_slice_idx", "(slice, entity_type, db_timestamp, seq_nr)")
	tags(t.Journal)
	table(t.Snapshot, createSnapshot)
	for _, name := range t.states(s.options) {
		table(name, createState)
		column(name, stateShape, stateShape.optional, true)
		index(name, "_slice_idx", "(slice, entity_type, db_timestamp)")
		tags(name)
	}
	table(t.TimestampOffset, createOffset)
	table(t.Epoch, createEpoch)
	column(t.Epoch, epochShape, positionColumns, false)
	epoch := t.quoted(t.Epoch)
	return append(all,
		object{name: epoch, column: "slice_to", typ: "smallint", ddl: "ALTER TABLE " + epoch + " ALTER slice_from TYPE SMALLINT, ALTER slice_to TYPE SMALLINT"},
		object{name: epoch, comment: versionComment, ddl: "COMMENT ON TABLE " + epoch + " IS '" + versionComment + "'"})
}

// indexName is the plugins' name for an index of a table. Where that is longer than PostgreSQL's names it is cut and gets a checksum,
// so that two names with the same beginning stay different.
func indexName(table, suffix string) string {
	if len(table)+len(suffix) <= maxName {
		return table + suffix
	}
	suffix = fmt.Sprintf("_%08x%s", crc32.ChecksumIEEE([]byte(table)), suffix)
	cut := maxName - len(suffix)
	for !utf8.RuneStart(table[cut]) {
		cut--
	}
	return table[:cut] + suffix
}
