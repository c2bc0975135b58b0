package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// create makes the tables and indexes that do not exist yet. What exists is left as it is, also where it is wrong.
func (s *Store) create(ctx context.Context) error {
	t, payload := s.tables, "BYTEA"
	if s.options.JSONB {
		payload = "JSONB"
	}
	states := []string{t.State}
	for _, st := range s.options.StateTypes {
		if st.Table != "" {
			states = append(states, st.Table)
		}
	}
	var ddl []string
	if t.Schema != "" {
		ddl = append(ddl, "CREATE SCHEMA IF NOT EXISTS "+quote(t.Schema))
	}
	ddl = append(ddl,
		fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
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
			PRIMARY KEY (persistence_id, seq_nr))`, t.quoted(t.Journal), payload),
		fmt.Sprintf(`CREATE INDEX IF NOT EXISTS %s ON %s (slice, entity_type, db_timestamp, seq_nr)`,
			quote(indexName(t.Journal)), t.quoted(t.Journal)),
		fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
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
			PRIMARY KEY (persistence_id))`, t.quoted(t.Snapshot), payload),
		fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
			projection_name VARCHAR(255) NOT NULL,
			projection_key VARCHAR(255) NOT NULL,
			slice INT NOT NULL,
			persistence_id VARCHAR(255) NOT NULL,
			seq_nr BIGINT NOT NULL,
			timestamp_offset TIMESTAMPTZ NOT NULL,
			timestamp_consumed TIMESTAMPTZ NOT NULL,
			PRIMARY KEY (slice, projection_name, timestamp_offset, persistence_id, seq_nr))`, t.quoted(t.TimestampOffset)),
		fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
			projection_name VARCHAR(255) NOT NULL,
			slice_from INT NOT NULL,
			slice_to INT NOT NULL,
			epoch BIGINT NOT NULL,
			PRIMARY KEY (projection_name, slice_from, slice_to))`, t.quoted(t.Epoch)))
	for _, name := range states {
		ddl = append(ddl,
			fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
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
				PRIMARY KEY (persistence_id))`, t.quoted(name), payload, writeIDs),
			fmt.Sprintf(`CREATE INDEX IF NOT EXISTS %s ON %s (slice, entity_type, db_timestamp)`,
				quote(indexName(name)), t.quoted(name)))
	}
	return atomically(ctx, s.reads, func(tx pgx.Tx) error {
		// IF NOT EXISTS alone fails when two processes create at once.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('annals create tables', 0))`); err != nil {
			return err
		}
		for _, statement := range ddl {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// indexName is the plugins' name for the slice index of a table, cut where PostgreSQL would cut it.
func indexName(table string) string {
	const suffix = "_slice_idx"
	return table[:min(len(table), maxName-len(suffix))] + suffix
}
