package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/annals-go/annals"
)

// schemaVersion is the shape of the tables that this release reads and writes.
//
//	1  the first
//	2  crc32c beside events, snapshots and states
const schemaVersion = 2

// The journal has rowids: events of many entities go to the end of one table, where a table clustered by its key would
// change a page for each of them (measured: 1.3 times the appends of 64 writers, for a replay that takes 1.15 times as
// long). The time index leaves deleted rows out and holds what filters ask for, so a follower reads table rows only for
// what it gets. deleted is when a row was emptied, 0 for an event. No two commits have one time, so time and number are an order by themselves.
var tables = []table{
	{
		name: "event_journal",
		columns: []string{
			"slice INTEGER NOT NULL",
			"entity_type TEXT NOT NULL",
			"persistence_id TEXT NOT NULL",
			"seq_nr INTEGER NOT NULL",
			"db_timestamp INTEGER NOT NULL",
			"event_ser_id INTEGER NOT NULL",
			"event_ser_manifest TEXT NOT NULL",
			"event_payload BLOB NOT NULL",
			"deleted INTEGER NOT NULL DEFAULT 0",
			"writer TEXT NOT NULL",
			"adapter_manifest TEXT NOT NULL DEFAULT ''",
			"tags TEXT",
			"meta_ser_id INTEGER",
			"meta_ser_manifest TEXT",
			"meta_payload BLOB",
			"crc32c INTEGER",
		},
		key:     []string{"persistence_id", "seq_nr"},
		options: "STRICT",
		index:   "(db_timestamp, seq_nr, slice, entity_type) WHERE deleted = 0",
	},
	{
		name: "snapshot",
		columns: []string{
			"slice INTEGER NOT NULL",
			"entity_type TEXT NOT NULL",
			"persistence_id TEXT NOT NULL",
			"seq_nr INTEGER NOT NULL",
			"db_timestamp INTEGER",
			"write_timestamp INTEGER NOT NULL",
			"ser_id INTEGER NOT NULL",
			"ser_manifest TEXT NOT NULL",
			"snapshot BLOB NOT NULL",
			"tags TEXT",
			"meta_ser_id INTEGER",
			"meta_ser_manifest TEXT",
			"meta_payload BLOB",
			"crc32c INTEGER",
		},
		key:     []string{"persistence_id"},
		options: "STRICT",
	},
	stateTable(commonTable),
	{
		name: "offsets",
		columns: []string{
			"projection_name TEXT NOT NULL",
			"slice INTEGER NOT NULL",
			"persistence_id TEXT NOT NULL",
			"seq_nr INTEGER NOT NULL",
			"timestamp_offset INTEGER NOT NULL",
			"timestamp_consumed INTEGER NOT NULL",
		},
		key:     []string{"projection_name", "slice", "persistence_id"},
		options: "STRICT, WITHOUT ROWID",
		index:   "(projection_name, slice, timestamp_offset)",
	},
	{
		name: "offset_epochs",
		columns: []string{
			"projection_name TEXT NOT NULL",
			"slice_from INTEGER NOT NULL",
			"slice_to INTEGER NOT NULL",
			"epoch INTEGER NOT NULL",
		},
		key:     []string{"projection_name", "slice_from", "slice_to"},
		options: "STRICT, WITHOUT ROWID",
	},
	{
		name:    "annals",
		columns: []string{"version INTEGER NOT NULL", "clock INTEGER NOT NULL"},
		options: "STRICT",
	},
}

// stateTable is a table for durable states. It is not STRICT: columns of the user's may have types of their own.
func stateTable(name string, columns ...string) table {
	return table{
		name: name,
		columns: append([]string{
			"slice INTEGER NOT NULL",
			"entity_type TEXT NOT NULL",
			"persistence_id TEXT NOT NULL",
			"revision INTEGER NOT NULL",
			"db_timestamp INTEGER NOT NULL",
			"state_ser_id INTEGER NOT NULL",
			"state_ser_manifest TEXT",
			"state_payload BLOB NOT NULL",
			"tags TEXT",
			"writes TEXT",
			"crc32c INTEGER",
		}, columns...),
		key:   []string{"persistence_id"},
		index: "(db_timestamp, revision, slice, entity_type)",
	}
}

// StateTable is the statement that creates a table for durable states, with further columns as SQL writes them
// ("title TEXT"): run it in Options.Init for each StateType.Table. Both are put into the statement as they are.
func StateTable(table string, columns ...string) string {
	return stateTable(table, columns...).create("IF NOT EXISTS")
}

// checkVersion returns the version of the tables, 0 where there are none, and refuses a file that a newer release wrote. It
// writes nothing.
func checkVersion(ctx context.Context, q *statements) (version int64, err error) {
	const exists = `SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'annals'`
	found, err := q.row(ctx, exists, nil, func(*values) {})
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, checkNames(ctx, q)
	}
	known, err := q.row(ctx, `SELECT version FROM annals`, nil, func(v *values) { version = v.integer("version", 1, math.MaxInt64) })
	switch {
	case err != nil:
		return 0, err
	case !known:
		return 0, &annals.Error{Op: "open", Kind: annals.ErrCorrupt, Err: errors.New("the table annals has no row")}
	case version > schemaVersion:
		return 0, &annals.Error{Op: "open", Kind: annals.ErrUnsupported,
			Err: fmt.Errorf("the tables have schema version %d, this release knows %d", version, schemaVersion)}
	}
	return version, nil
}

// checkNames refuses a file in which somebody else has a table of a name that the store needs.
func checkNames(ctx context.Context, q *statements) error {
	for _, t := range tables {
		taken, err := q.row(ctx, `SELECT 1 FROM sqlite_schema WHERE name = ? COLLATE NOCASE`, []any{t.name}, func(*values) {})
		if err != nil {
			return err
		}
		if taken {
			return invalid("open", "", fmt.Sprintf("the file has a table %q that is not the store's", t.name))
		}
	}
	return nil
}

// createSchema makes the tables, if another process has not just done so, lets init make the user's, and looks whether
// all are as they have to be.
func createSchema(ctx context.Context, tx *sql.Tx, types stateTypes, init func(context.Context, *sql.Tx) error) error {
	q := &statements{prepare: tx.PrepareContext}
	version, err := checkVersion(ctx, q)
	switch {
	case err != nil:
	case version == 0:
		err = createTables(ctx, q)
	case version < schemaVersion:
		err = upgradeTables(ctx, q)
	}
	if err == nil {
		err = checkTables(ctx, q)
	}
	if err != nil {
		return err
	}
	if init != nil {
		if err := init(ctx, tx); err != nil {
			return &annals.Error{Op: "open", Err: err}
		}
	}
	return types.check(ctx, q)
}

func createTables(ctx context.Context, q *statements) error {
	for _, t := range tables {
		for _, text := range []string{t.create(""), t.createIndex()} {
			if text == "" {
				continue
			}
			if _, err := q.exec(ctx, text); err != nil {
				return err
			}
		}
	}
	_, err := q.exec(ctx, `INSERT INTO annals (version, clock) VALUES (?, 0)`, schemaVersion)
	return err
}

// upgradeTables makes tables of version 1 those of version 2. Their rows have no checksums, and stay as they are.
func upgradeTables(ctx context.Context, q *statements) error {
	for _, t := range tables {
		if slices.Contains(t.names(), "crc32c") {
			if err := addChecksums(ctx, q, t.name); err != nil {
				return err
			}
		}
	}
	_, err := q.exec(ctx, `UPDATE annals SET version = ?`, schemaVersion)
	return err
}

// addChecksums adds the column crc32c to a table of version 1.
func addChecksums(ctx context.Context, q *statements, table string) error {
	there, err := columnsOf(ctx, q, table)
	if _, ok := there["crc32c"]; err != nil || ok || len(there) == 0 {
		return err
	}
	_, err = q.exec(ctx, `ALTER TABLE `+quote(table)+` ADD COLUMN crc32c INTEGER`)
	return err
}

// checkTables is ErrCorrupt when somebody has changed what the store relies on.
func checkTables(ctx context.Context, q *statements) error {
	var faults []error
	for _, t := range tables {
		there, err := columnsOf(ctx, q, t.name)
		if err != nil {
			return err
		}
		faults = append(faults, t.faults(there)...)
	}
	if err := errors.Join(faults...); err != nil {
		return &annals.Error{Op: "open", Kind: annals.ErrCorrupt, Err: err}
	}
	return nil
}
