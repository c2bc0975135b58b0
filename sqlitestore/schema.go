package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/findings"
)

// schemaVersion is the version of the tables that this release reads and writes.
//
//	1  the first version
//	2  the column crc32c of events, snapshots and states
//	3  the column written of events, the columns meta_* of states
//	4  the columns through_* of offset_epochs
//	5  no new column: the row of an entity's last deleted number is kept
const schemaVersion = 5

// The tables of the store, except durable_state, which stateTable returns.
var (
	// The journal has rowids, so that the events of many entities are appended to the end of one B-tree. A table clustered by its
	// primary key would change one page per entity: 64 concurrent writers would append 1.3 times slower, and a replay would be 1.15
	// times faster (measured).
	//
	// db_timestamp is the time of the event. written is NULL, or the time of the commit where the writer set NewEvent.Time. deleted
	// is 0, or the time when the row was emptied by DeleteTo. The index on the time leaves deleted rows out and holds the columns of
	// filters, so that a query reads only the rows that it returns.
	journalTable = table{
		name: "event_journal",
		create: `CREATE TABLE IF NOT EXISTS event_journal (
	slice INTEGER NOT NULL,
	entity_type TEXT NOT NULL,
	persistence_id TEXT NOT NULL,
	seq_nr INTEGER NOT NULL,
	db_timestamp INTEGER NOT NULL,
	event_ser_id INTEGER NOT NULL,
	event_ser_manifest TEXT NOT NULL,
	event_payload BLOB NOT NULL,
	deleted INTEGER NOT NULL DEFAULT 0,
	writer TEXT NOT NULL,
	adapter_manifest TEXT NOT NULL DEFAULT '',
	tags TEXT,
	meta_ser_id INTEGER,
	meta_ser_manifest TEXT,
	meta_payload BLOB,
	crc32c INTEGER,
	written INTEGER,
	PRIMARY KEY (persistence_id, seq_nr)
) STRICT`,
		index: `CREATE INDEX IF NOT EXISTS event_journal_time_idx
	ON event_journal (db_timestamp, seq_nr, slice, entity_type) WHERE deleted = 0`,
		added: []string{"crc32c", "written"},
	}
	// db_timestamp is the time of the snapshot's event. It is NULL where an older release saved a snapshot of no event.
	snapshotTable = table{
		name: "snapshot",
		create: `CREATE TABLE IF NOT EXISTS snapshot (
	slice INTEGER NOT NULL,
	entity_type TEXT NOT NULL,
	persistence_id TEXT NOT NULL,
	seq_nr INTEGER NOT NULL,
	db_timestamp INTEGER,
	write_timestamp INTEGER NOT NULL,
	ser_id INTEGER NOT NULL,
	ser_manifest TEXT NOT NULL,
	snapshot BLOB NOT NULL,
	tags TEXT,
	meta_ser_id INTEGER,
	meta_ser_manifest TEXT,
	meta_payload BLOB,
	crc32c INTEGER,
	PRIMARY KEY (persistence_id)
) STRICT`,
		index: `CREATE INDEX IF NOT EXISTS snapshot_time_idx
	ON snapshot (` + snapshotEventTime + `, seq_nr, persistence_id, slice, entity_type)`,
		added: []string{"crc32c"},
	}
	offsetTable = table{
		name: "offsets",
		create: `CREATE TABLE IF NOT EXISTS offsets (
	projection_name TEXT NOT NULL,
	slice INTEGER NOT NULL,
	persistence_id TEXT NOT NULL,
	seq_nr INTEGER NOT NULL,
	timestamp_offset INTEGER NOT NULL,
	timestamp_consumed INTEGER NOT NULL,
	PRIMARY KEY (projection_name, slice, persistence_id)
) STRICT, WITHOUT ROWID`,
		index: `CREATE INDEX IF NOT EXISTS offsets_time_idx
	ON offsets (projection_name, slice, timestamp_offset)`,
	}
	epochTable = table{
		name: "offset_epochs",
		create: `CREATE TABLE IF NOT EXISTS offset_epochs (
	projection_name TEXT NOT NULL,
	slice_from INTEGER NOT NULL,
	slice_to INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	through_time INTEGER,
	through_seq_nr INTEGER,
	through_id TEXT,
	PRIMARY KEY (projection_name, slice_from, slice_to)
) STRICT, WITHOUT ROWID`,
		added: []string{"through_time", "through_seq_nr", "through_id"},
	}
	// The table annals has one row: the version of the schema, and a time that is not before that of any event that was deleted.
	versionTable = table{
		name: "annals",
		create: `CREATE TABLE IF NOT EXISTS annals (
	version INTEGER NOT NULL,
	clock INTEGER NOT NULL
) STRICT`,
	}
)

// StateTable is the statement that creates a table for durable states, with additional columns as SQL writes them
// ("title TEXT"): run it in Options.Init for each StateType.Table. The name and the columns are put into the statement as they are.
func StateTable(table string, columns ...string) string {
	additional := ""
	for _, column := range columns {
		additional += "\t" + column + ",\n"
	}
	// It is not STRICT, because additional columns may have any type.
	return `CREATE TABLE IF NOT EXISTS ` + table + ` (
	slice INTEGER NOT NULL,
	entity_type TEXT NOT NULL,
	persistence_id TEXT NOT NULL,
	revision INTEGER NOT NULL,
	db_timestamp INTEGER NOT NULL,
	state_ser_id INTEGER NOT NULL,
	state_ser_manifest TEXT,
	state_payload BLOB NOT NULL,
	tags TEXT,
	meta_ser_id INTEGER,
	meta_ser_manifest TEXT,
	meta_payload BLOB,
	writes TEXT,
	crc32c INTEGER,
` + additional + `	PRIMARY KEY (persistence_id)
)`
}

// stateTable is a table for durable states; its additional columns have no type.
func stateTable(name string, columns ...string) table {
	t := table{
		name:   name,
		create: StateTable(quote(name), columns...),
		added:  []string{"crc32c", "meta_ser_id", "meta_ser_manifest", "meta_payload"},
	}
	t.index = `CREATE INDEX IF NOT EXISTS ` + quote(t.indexName()) + `
	ON ` + quote(name) + ` (db_timestamp, revision, slice, entity_type)`
	return t
}

// ownTables are the tables that every file has.
func ownTables() []table {
	return []table{journalTable, snapshotTable, stateTable(commonTable), offsetTable, epochTable, versionTable}
}

const (
	getMode = `PRAGMA journal_mode`
	setWAL  = `PRAGMA journal_mode = WAL`
)

const saveVersion = `INSERT INTO annals (version, clock) SELECT %d, 0 WHERE NOT EXISTS (SELECT 1 FROM annals)`

// schemaScript are the statements of the Schema of a Setup.
func schemaScript(o Options) []string {
	columns := map[string][]string{commonTable: nil} // the additional ones, by table
	for _, entityType := range slices.Sorted(maps.Keys(o.StateTypes)) {
		t := o.StateTypes[entityType]
		name := cmp.Or(fold(t.Table), commonTable)
		for _, column := range t.Columns {
			if column = quote(fold(column)); !slices.Contains(columns[name], column) {
				columns[name] = append(columns[name], column)
			}
		}
	}
	tables := []table{journalTable, snapshotTable, offsetTable, epochTable, versionTable}
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		tables = append(tables, stateTable(name, columns[name]...))
	}
	statements := []string{setWAL}
	for _, t := range tables {
		statements = append(statements, t.create)
		if t.index != "" {
			statements = append(statements, t.index)
		}
	}
	return append(statements, fmt.Sprintf(saveVersion, schemaVersion))
}

// lookAtVersion is checkVersion in a transaction of its own.
func lookAtVersion(ctx context.Context, q *statements) error {
	return looking(ctx, q, func() error {
		_, err := checkVersion(ctx, q)
		return err
	})
}

// looking runs fn in a transaction, which it undoes. It waits while another process keeps it from reading, until ctx ends.
func looking(ctx context.Context, q *statements, fn func() error) error {
	if err := q.exec(ctx, `BEGIN`); err != nil {
		return err
	}
	err := patiently(ctx, func() error {
		_, err := q.row(ctx, `SELECT 1 FROM sqlite_schema`, nil, func(*values) {})
		return err
	})
	if err == nil {
		err = fn()
	}
	failed := q.exec(context.WithoutCancel(ctx), `ROLLBACK`)
	return cmp.Or(err, failed)
}

// checkVersion returns the version of the tables, 0 where there are none, and refuses a file that a newer release wrote. It
// writes nothing. It needs a transaction: another process may create the tables between two statements.
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
		return 0, &annals.Error{Kind: annals.ErrCorrupt, Err: errors.New("the table annals has no row")}
	case version > schemaVersion:
		return 0, &annals.Error{Kind: annals.ErrUnsupported,
			Err: &findings.Fault{Code: "newer-tables", Schema: true, Found: fmt.Sprintf("the tables have schema version %d, this release knows %d", version, schemaVersion), Do: "use a newer release"}}
	}
	return version, nil
}

// checkNames refuses a file in which another program has a table with a name that the store needs.
func checkNames(ctx context.Context, q *statements) error {
	for _, t := range ownTables() {
		taken, err := q.row(ctx, `SELECT 1 FROM sqlite_schema WHERE name = ? COLLATE NOCASE`, []any{t.name}, func(*values) {})
		if err != nil {
			return err
		}
		if taken {
			return refusal("foreign-table", fmt.Sprintf("the file has a table %q that is not the store's", t.name), "use a file of its own for the store")
		}
	}
	return nil
}

// prepareTables creates or upgrades the tables, lets Options.Init create the user's, and checks all of them. Another process may have done
// it just before. Where Options.CreateTables is false it only checks, and is ErrInvalid where something is missing.
func prepareTables(ctx context.Context, tx *sql.Tx, q *statements, types stateTypes, o Options) error {
	version, err := checkVersion(ctx, q)
	if err == nil {
		if o.creates() {
			err = run(ctx, q, func() ([]string, error) { return upgrade(ctx, q, version) })
		} else {
			err = older(version)
		}
	}
	if err == nil {
		err = checkTables(ctx, q)
	}
	if err == nil && o.creates() {
		err = initTables(ctx, tx, q, types, o.Init)
	}
	if err == nil {
		err = types.check(ctx, q)
	}
	if err == nil && o.creates() {
		return run(ctx, q, func() ([]string, error) { return indexes(ctx, q, types) })
	}
	for _, t := range slices.Concat(ownTables(), types.ownTables()) {
		if err == nil {
			err = t.checkIndex(ctx, q)
		}
	}
	return err
}

// run executes statements.
func run(ctx context.Context, q *statements, statements func() ([]string, error)) error {
	all, err := statements()
	for _, text := range all {
		if err == nil {
			err = q.exec(ctx, text)
		}
	}
	return err
}

// older is ErrInvalid where there are no tables, or those of an older release.
func older(version int64) error {
	switch version {
	case schemaVersion:
		return nil
	case 0:
		return refusal("table", "the file does not have the store's tables", "Migrate creates them")
	}
	return refusal("older-tables", fmt.Sprintf("the tables have schema version %d, this release needs %d", version, schemaVersion), "Migrate upgrades them")
}

// markDeletes inserts, with the time of the delete, the row of the last deleted number where a release before version 5 has removed it. Its writer has no other row, and
// its time is not that of a commit.
const markDeletes = `INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp,
		event_ser_id, event_ser_manifest, event_payload, deleted, writer)
	SELECT slice, entity_type, persistence_id, seq_nr - 1, db_timestamp - 1, 0, '', x'', %d, '00000000-0000-0000-0000-000000000000'
	FROM event_journal AS first
	WHERE seq_nr > 1 AND deleted = 0 AND seq_nr = (SELECT min(seq_nr) FROM event_journal WHERE persistence_id = first.persistence_id)`

// upgrade are the statements that create the tables where version is 0. In tables of an older version they add the columns of later ones, and
// what markDeletes inserts. The rows that are there stay as they are.
func upgrade(ctx context.Context, q *statements, version int64) (all []string, err error) {
	if version == schemaVersion {
		return nil, nil
	}
	for _, t := range ownTables() {
		if version == 0 {
			all = append(all, t.create)
			continue
		}
		missing, err := t.missing(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, missing...)
	}
	if version == 0 {
		return append(all, fmt.Sprintf(saveVersion, schemaVersion)), nil
	}
	if version < 5 {
		all = append(all, fmt.Sprintf(markDeletes, time.Now().UnixMicro()))
	}
	return append(all, fmt.Sprintf(`UPDATE annals SET version = %d`, schemaVersion)), nil
}

// indexes are the statements that create the indexes that are missing.
func indexes(ctx context.Context, q *statements, types stateTypes) (all []string, err error) {
	for _, t := range slices.Concat(ownTables(), types.ownTables()) {
		there, err := t.hasIndex(ctx, q)
		if err != nil {
			return nil, err
		}
		if !there {
			all = append(all, t.index)
		}
	}
	return all, nil
}

// initTables runs the user's init, and adds the columns of later versions to tables of states.
func initTables(ctx context.Context, tx *sql.Tx, q *statements, types stateTypes, init func(context.Context, *sql.Tx) error) error {
	if init != nil {
		if err := init(ctx, tx); err != nil {
			return &annals.Error{Err: err}
		}
	}
	return run(ctx, q, func() ([]string, error) { return types.missing(ctx, q) })
}

// checkTables is ErrCorrupt when another program has changed what the store relies on.
func checkTables(ctx context.Context, q *statements) error {
	var faults []error
	for _, t := range ownTables() {
		found, err := t.faults(ctx, q)
		if err != nil {
			return err
		}
		faults = append(faults, found...)
	}
	if err := errors.Join(faults...); err != nil {
		return &annals.Error{Kind: annals.ErrCorrupt, Err: err}
	}
	return nil
}
