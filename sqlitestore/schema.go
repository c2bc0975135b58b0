package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/annals-go/annals"
)

// schemaVersion is the shape of the tables that this release reads and writes.
//
//	1  the first
const schemaVersion = 1

// The journal has rowids: events of many entities go to the end of one table, where a table clustered by its key would
// change a page for each of them (measured: 1.3 times the appends of 64 writers, for a replay that takes 1.15 times as
// long). The time index leaves deleted rows out and holds what filters ask for, so a follower reads table rows only for
// what it gets. deleted is when a row was emptied, 0 for an event. No two commits have one time, so time and number are an order by themselves.
var schema = []string{
	`CREATE TABLE event_journal (
		slice              INTEGER NOT NULL,
		entity_type        TEXT    NOT NULL,
		persistence_id     TEXT    NOT NULL,
		seq_nr             INTEGER NOT NULL,
		db_timestamp       INTEGER NOT NULL,
		event_ser_id       INTEGER NOT NULL,
		event_ser_manifest TEXT    NOT NULL,
		event_payload      BLOB    NOT NULL,
		deleted            INTEGER NOT NULL DEFAULT 0,
		writer             TEXT    NOT NULL,
		adapter_manifest   TEXT    NOT NULL DEFAULT '',
		tags               TEXT,
		meta_ser_id        INTEGER,
		meta_ser_manifest  TEXT,
		meta_payload       BLOB,
		PRIMARY KEY (persistence_id, seq_nr)
	) STRICT`,
	`CREATE INDEX event_journal_time_idx
		ON event_journal (db_timestamp, seq_nr, slice, entity_type) WHERE deleted = 0`,
	`CREATE TABLE snapshot (
		slice             INTEGER NOT NULL,
		entity_type       TEXT    NOT NULL,
		persistence_id    TEXT    NOT NULL PRIMARY KEY,
		seq_nr            INTEGER NOT NULL,
		db_timestamp      INTEGER,
		write_timestamp   INTEGER NOT NULL,
		ser_id            INTEGER NOT NULL,
		ser_manifest      TEXT    NOT NULL,
		snapshot          BLOB    NOT NULL,
		tags              TEXT,
		meta_ser_id       INTEGER,
		meta_ser_manifest TEXT,
		meta_payload      BLOB
	) STRICT`,
	StateTable("durable_state"),
	stateIndex("durable_state"),
	`CREATE TABLE offsets (
		projection_name    TEXT    NOT NULL,
		slice              INTEGER NOT NULL,
		persistence_id     TEXT    NOT NULL,
		seq_nr             INTEGER NOT NULL,
		timestamp_offset   INTEGER NOT NULL,
		timestamp_consumed INTEGER NOT NULL,
		PRIMARY KEY (projection_name, slice, persistence_id)
	) STRICT, WITHOUT ROWID`,
	`CREATE INDEX offsets_time_idx ON offsets (projection_name, slice, timestamp_offset)`,
	`CREATE TABLE offset_epochs (
		projection_name TEXT    NOT NULL,
		slice_from      INTEGER NOT NULL,
		slice_to        INTEGER NOT NULL,
		epoch           INTEGER NOT NULL,
		PRIMARY KEY (projection_name, slice_from, slice_to)
	) STRICT, WITHOUT ROWID`,
	`CREATE TABLE annals (
		version INTEGER NOT NULL,
		clock   INTEGER NOT NULL
	) STRICT`,
	fmt.Sprintf(`INSERT INTO annals (version, clock) VALUES (%d, 0)`, schemaVersion),
}

// StateTable is the statement that creates a table for durable states, with further columns as SQL writes them
// ("title TEXT"): run it in Options.Init for each StateType.Table. Both are put into the statement as they are.
func StateTable(table string, columns ...string) string {
	text := `CREATE TABLE IF NOT EXISTS ` + table + ` (
		slice              INTEGER NOT NULL,
		entity_type        TEXT    NOT NULL,
		persistence_id     TEXT    NOT NULL PRIMARY KEY,
		revision           INTEGER NOT NULL,
		db_timestamp       INTEGER NOT NULL,
		state_ser_id       INTEGER NOT NULL,
		state_ser_manifest TEXT,
		state_payload      BLOB    NOT NULL,
		tags               TEXT,
		writes             TEXT`
	for _, column := range columns {
		text += ",\n\t\t" + column
	}
	return text + "\n\t)"
}

// stateIndex is the statement for the time index of a table of states.
func stateIndex(table string) string {
	return `CREATE INDEX IF NOT EXISTS ` + quote(table+`_time_idx`) + ` ON ` + quote(table) + ` (db_timestamp, revision, slice, entity_type)`
}

// checkVersion refuses a file that a newer release wrote. It writes nothing.
func checkVersion(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) (found bool, err error) {
	const exists = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'annals'`
	if err := db.QueryRowContext(ctx, exists).Scan(&found); err != nil || !found {
		return false, err
	}
	version := 0
	if err := db.QueryRowContext(ctx, `SELECT version FROM annals`).Scan(&version); err != nil {
		return true, err
	}
	if version > schemaVersion {
		return true, &annals.Error{Op: "open", Kind: annals.ErrUnsupported,
			Err: fmt.Errorf("the tables have schema version %d, this release knows %d", version, schemaVersion)}
	}
	return true, nil
}

// createSchema makes the tables, if another process has not just done so, lets init make the user's, and looks whether
// these are as types says.
func createSchema(ctx context.Context, tx *sql.Tx, types stateTypes, init func(context.Context, *sql.Tx) error) error {
	found, err := checkVersion(ctx, tx)
	if err != nil {
		return err
	}
	if !found {
		for _, text := range schema {
			if _, err := tx.ExecContext(ctx, text); err != nil {
				return err
			}
		}
	}
	if init != nil {
		if err := init(ctx, tx); err != nil {
			return &annals.Error{Op: "open", Err: err}
		}
	}
	return types.check(ctx, tx)
}
