package pgstore

import (
	"context"
	"fmt"
	"hash/crc32"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// object is something that create makes.
type object struct {
	name string // as to_regclass takes it; of a schema the bare name
	ddl  string
}

// create makes the tables and indexes that do not exist yet. What exists is left as it is, also where it is wrong. Where nothing is
// missing it only reads, so the role needs no right to create.
func (s *Store) create(ctx context.Context) error {
	if missing, err := s.missing(ctx, s.reads); err != nil || len(missing) == 0 {
		return err
	}
	return atomically(ctx, s.reads, func(tx pgx.Tx) error {
		// Two processes that create at once would meet each other's half.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('annals create tables', 0))`); err != nil {
			return err
		}
		missing, err := s.missing(ctx, tx)
		if err != nil {
			return err
		}
		for _, o := range missing {
			if _, err := tx.Exec(ctx, o.ddl); err != nil {
				return err
			}
		}
		return nil
	})
}

// missing are the objects that the search_path does not lead to, in the order in which they can be made.
func (s *Store) missing(ctx context.Context, q querier) ([]object, error) {
	all := s.objects()
	names := make([]string, len(all))
	for i, o := range all {
		names[i] = o.name
	}
	rows, err := q.Query(ctx, `SELECT nr::int - 1 FROM unnest($1::text[]) WITH ORDINALITY o (name, nr)
		WHERE CASE WHEN nr = 1 AND $2 <> '' THEN NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = $2) ELSE to_regclass(name) IS NULL END ORDER BY nr`,
		names, s.tables.Schema)
	if err != nil {
		return nil, err
	}
	numbers, err := pgx.CollectRows(rows, pgx.RowTo[int])
	missing := make([]object, len(numbers))
	for i, nr := range numbers {
		missing[i] = all[nr]
	}
	return missing, err
}

// objects are all that the store uses, the schema first where it has a name.
func (s *Store) objects() (all []object) {
	t, payload := s.tables, "BYTEA"
	if s.options.JSONB {
		payload = "JSONB"
	}
	if t.Schema != "" {
		all = append(all, object{t.Schema, "CREATE SCHEMA " + quote(t.Schema)})
	}
	table := func(name, columns string, args ...any) {
		all = append(all, object{t.quoted(name), "CREATE TABLE " + t.quoted(name) + " (" + fmt.Sprintf(columns, args...) + ")"})
	}
	index := func(of, suffix, columns string) {
		name := indexName(of, suffix)
		all = append(all, object{t.quoted(name), fmt.Sprintf("CREATE INDEX %s ON %s %s", quote(name), t.quoted(of), columns)})
	}
	tags := func(of string) {
		if s.options.TagsIndex {
			index(of, "_tags_idx", "USING gin (tags)")
		}
	}
	table(t.Journal, `
		slice INT NOT NULL,
		entity_type VARCHAR(255) NOT NULL,
		persistence_id VARCHAR(255) NOT NULL,
		seq_nr BIGINT NOT NULL,
		db_timestamp TIMESTAMPTZ NOT NULL,
		event_ser_id INTEGER NOT NULL,
		event_ser_manifest VARCHAR(255) NOT NULL,
		event_payload %s NOT NULL,
		deleted BOOLEAN DEFAULT FALSE NOT NULL,
		writer VARCHAR(255) NOT NULL,
		adapter_manifest VARCHAR(255),
		tags TEXT[],
		meta_ser_id INTEGER,
		meta_ser_manifest VARCHAR(255),
		meta_payload BYTEA,
		PRIMARY KEY (persistence_id, seq_nr)`, payload)
	index(t.Journal, "_slice_idx", "(slice, entity_type, db_timestamp, seq_nr)")
	tags(t.Journal)
	table(t.Snapshot, `
		slice INT NOT NULL,
		entity_type VARCHAR(255) NOT NULL,
		persistence_id VARCHAR(255) NOT NULL,
		seq_nr BIGINT NOT NULL,
		db_timestamp TIMESTAMPTZ,
		write_timestamp BIGINT NOT NULL,
		ser_id INTEGER NOT NULL,
		ser_manifest VARCHAR(255) NOT NULL,
		snapshot %s NOT NULL,
		tags TEXT[],
		meta_ser_id INTEGER,
		meta_ser_manifest VARCHAR(255),
		meta_payload BYTEA,
		PRIMARY KEY (persistence_id)`, payload)
	for _, name := range t.states(s.options) {
		table(name, `
			slice INT NOT NULL,
			entity_type VARCHAR(255) NOT NULL,
			persistence_id VARCHAR(255) NOT NULL,
			revision BIGINT NOT NULL,
			db_timestamp TIMESTAMPTZ NOT NULL,
			state_ser_id INTEGER NOT NULL,
			state_ser_manifest VARCHAR(255),
			state_payload %s NOT NULL,
			tags TEXT[],
			%s TEXT,
			PRIMARY KEY (persistence_id)`, payload, writeIDs)
		index(name, "_slice_idx", "(slice, entity_type, db_timestamp)")
		tags(name)
	}
	table(t.TimestampOffset, `
		projection_name VARCHAR(255) NOT NULL,
		projection_key VARCHAR(255) NOT NULL,
		slice INT NOT NULL,
		persistence_id VARCHAR(255) NOT NULL,
		seq_nr BIGINT NOT NULL,
		timestamp_offset TIMESTAMPTZ NOT NULL,
		timestamp_consumed TIMESTAMPTZ NOT NULL,
		PRIMARY KEY (slice, projection_name, timestamp_offset, persistence_id, seq_nr)`)
	table(t.Epoch, `
		projection_name VARCHAR(255) NOT NULL,
		slice_from INT NOT NULL,
		slice_to INT NOT NULL,
		epoch BIGINT NOT NULL,
		PRIMARY KEY (projection_name, slice_from, slice_to)`)
	return all
}

// indexName is the plugins' name for an index of a table. Where that is longer than PostgreSQL's names it is cut, and has a checksum:
// names that are cut alike stay different.
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
