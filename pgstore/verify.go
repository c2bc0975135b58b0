package pgstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// table is what the database says about one of the store's tables.
type table struct {
	name    string // quoted, in its schema
	columns map[string]column
	key     []string // of the primary key, in its order
	emptied bool     // by the server when it recovers from a crash, because the table is unlogged
}

type column struct {
	typ     string // as format_type has it, without a length
	oid     uint32
	notNull bool
}

func (t *table) exists() bool           { return t.columns != nil }
func (t *table) has(column string) bool { _, ok := t.columns[column]; return ok }

// json reports whether a payload column holds JSON and not bytes.
func (t *table) json(column string) bool {
	typ := t.columns[column].typ
	return typ == "jsonb" || typ == "json"
}

var (
	integer   = []string{"integer", "bigint"}
	bigint    = []string{"bigint"}
	text      = []string{"character varying", "text"}
	timestamp = []string{"timestamp with time zone"}
	payload   = []string{"bytea", "jsonb", "json"}
	bytea     = []string{"bytea"}
	boolean   = []string{"boolean"}
	textArray = []string{"text[]", "character varying[]"}
)

// shape is what a table must look like. It may have further columns.
type shape struct {
	columns  map[string][]string // and the types they may have
	optional map[string][]string
	keys     [][]string
}

var (
	journalShape = shape{
		columns: map[string][]string{"slice": integer, "entity_type": text, "persistence_id": text, "seq_nr": bigint, "db_timestamp": timestamp,
			"event_ser_id": integer, "event_ser_manifest": text, "event_payload": payload, "deleted": boolean, "writer": text,
			"adapter_manifest": text, "tags": textArray, "meta_ser_id": integer, "meta_ser_manifest": text, "meta_payload": bytea},
		keys: [][]string{{"persistence_id", "seq_nr"}},
	}
	snapshotShape = shape{
		columns: map[string][]string{"slice": integer, "entity_type": text, "persistence_id": text, "seq_nr": bigint, "write_timestamp": bigint,
			"ser_id": integer, "ser_manifest": text, "snapshot": payload, "meta_ser_id": integer, "meta_ser_manifest": text, "meta_payload": bytea},
		optional: map[string][]string{"db_timestamp": timestamp, "tags": textArray},
		keys:     [][]string{{"persistence_id"}},
	}
	stateShape = shape{
		columns: map[string][]string{"slice": integer, "entity_type": text, "persistence_id": text, "revision": bigint, "db_timestamp": timestamp,
			"state_ser_id": integer, "state_ser_manifest": text, "state_payload": payload, "tags": textArray},
		optional: map[string][]string{writeIDs: text, "meta_ser_id": integer, "meta_ser_manifest": text, "meta_payload": bytea},
		keys:     [][]string{{"persistence_id"}, {"persistence_id", "revision"}},
	}
	offsetShape = shape{
		columns: map[string][]string{"projection_name": text, "projection_key": text, "slice": integer, "persistence_id": text, "seq_nr": bigint,
			"timestamp_offset": timestamp, "timestamp_consumed": timestamp},
		keys: [][]string{{"slice", "projection_name", "timestamp_offset", "persistence_id", "seq_nr"}},
	}
	epochShape = shape{
		columns: map[string][]string{"projection_name": text, "slice_from": integer, "slice_to": integer, "epoch": bigint},
		keys:    [][]string{{"projection_name", "slice_from", "slice_to"}},
	}
)

// faults is everything in which t differs from s.
func (s shape) faults(t *table) error {
	if !t.exists() {
		return fmt.Errorf("there is no table %s", t.name)
	}
	var faults []error
	if t.emptied {
		faults = append(faults, fmt.Errorf("table %s is unlogged, so a crash of the server empties it: SET LOGGED, or accept that with Options.NonDurable", t.name))
	}
	wrong := func(name string, types []string) {
		if have := t.columns[name].typ; !slices.Contains(types, have) {
			faults = append(faults, fmt.Errorf("table %s: column %q is %s, not %s", t.name, name, have, strings.Join(types, " or ")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.columns)) {
		if !t.has(name) {
			faults = append(faults, fmt.Errorf("table %s has no column %q", t.name, name))
			continue
		}
		wrong(name, s.columns[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.optional)) {
		if t.has(name) {
			wrong(name, s.optional[name])
		}
	}
	if !slices.ContainsFunc(s.keys, func(key []string) bool { return slices.Equal(key, t.key) }) {
		faults = append(faults, fmt.Errorf("table %s has the primary key (%s), not (%s)", t.name, strings.Join(t.key, ", "), strings.Join(s.keys[0], ", ")))
	}
	return errors.Join(faults...)
}

// inspect asks the database for the columns and the key of a table.
func (s *backend) inspect(ctx context.Context, name string) (*table, error) {
	t := &table{name: s.tables.quoted(name)}
	rows, err := s.reads.Query(ctx, `
		SELECT a.attname, format_type(a.atttypid, NULL), a.atttypid, a.attnotnull, coalesce(array_position(i.indkey::int2[], a.attnum), -1), c.relpersistence <> 'p'
		FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
		WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped`, t.name)
	if err != nil {
		return t, err
	}
	keyed := map[int]string{}
	var attribute string
	var c column
	var place int
	_, err = pgx.ForEachRow(rows, []any{&attribute, &c.typ, &c.oid, &c.notNull, &place, &t.emptied}, func() error {
		if t.columns == nil {
			t.columns = map[string]column{}
		}
		t.columns[attribute] = c
		if place >= 0 {
			keyed[place] = attribute
		}
		return nil
	})
	for _, place := range slices.Sorted(maps.Keys(keyed)) {
		t.key = append(t.key, keyed[place])
	}
	t.emptied = t.emptied && !s.options.NonDurable
	return t, err
}

// verify inspects the server, the tables and the role's rights. wrong is everything that is wrong with them; err says that they could not
// be inspected.
func (s *backend) verify(ctx context.Context) (wrong, err error) {
	look := func(name string) *table {
		t, lookErr := s.inspect(ctx, name)
		err = errors.Join(err, lookErr)
		return t
	}
	// YugabyteDB reads a range of slices at once, but the slices of a list one by one.
	if err := s.reads.QueryRow(ctx, "SELECT version() LIKE '%-YB-%'").Scan(&s.yugabyte); err != nil {
		return nil, err
	}
	s.journal, s.snapshot, s.offset, s.epoch = look(s.tables.Journal), look(s.tables.Snapshot), look(s.tables.TimestampOffset), look(s.tables.Epoch)
	stateFaults := s.verifyStates(look)
	if err != nil {
		return nil, err
	}
	lacking, err := s.checkRights(ctx)
	if err != nil {
		return nil, err
	}
	faults := []error{journalShape.faults(s.journal), snapshotShape.faults(s.snapshot), stateFaults, lacking}
	if s.offset.exists() {
		faults = append(faults, offsetShape.faults(s.offset))
	}
	if s.epoch.exists() {
		faults = append(faults, epochShape.faults(s.epoch))
	}
	return errors.Join(faults...), nil
}
