package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals/internal/findings"
	"github.com/annals-go/annals/internal/sqltext"
)

// table is what the database says about one of the store's tables.
type table struct {
	name    string // quoted, in its schema
	shape   shape
	columns map[string]column
	key     []string // of the primary key, in its order
	emptied bool     // by the server when it recovers from a crash, because the table or a partition is unlogged
}

type column struct {
	typ string // as format_type has it, without a length
	oid uint32
}

func (t *table) exists() bool           { return t.columns != nil }
func (t *table) has(column string) bool { _, ok := t.columns[column]; return ok }

// json reports whether the payload column holds JSON and not bytes.
func (t *table) json() bool {
	typ := t.columns[t.shape.payload].typ
	return typ == "jsonb" || typ == "json"
}

// typesOf has, for each type that the store creates columns with, the types that such a column may have in an existing table.
var typesOf = map[string][]string{
	"SMALLINT": {"smallint", "integer", "bigint"}, "INT": {"integer", "bigint"}, "INTEGER": {"integer", "bigint"}, "BIGINT": {"bigint"}, "VARCHAR": {"character varying", "text"},
	"TEXT": {"character varying", "text"}, "TIMESTAMPTZ": {"timestamp with time zone"},
	"BYTEA": {"bytea"}, "BOOLEAN": {"boolean"}, "TEXT[]": {"text[]", "character varying[]"},
}

// shape is what a table must look like. It may have further columns.
type shape struct {
	columns  []sqltext.Column
	payload  string   // the column that may also hold JSON
	optional []string // names of columns that may be missing
	keys     [][]string
}

// shapeOf is the shape of tables like the one that create creates.
func shapeOf(create, payload string, optional ...string) shape {
	columns, key := sqltext.Columns(create)
	return shape{columns, payload, optional, [][]string{key}}
}

var (
	journalShape  = shapeOf(createJournal, "event_payload")
	snapshotShape = shapeOf(createSnapshot, "snapshot", "db_timestamp", "tags")
	stateShape    = shapeOf(createState, "state_payload", append(metaNames, writeIDs)...).orKey("persistence_id", "revision")
	offsetShape   = shapeOf(createOffset, "")
	epochShape    = shapeOf(createEpoch, "")
)

// orKey is s for tables that may have this primary key, too.
func (s shape) orKey(key ...string) shape {
	s.keys = append(s.keys, key)
	return s
}

// has reports whether the column is the store's own.
func (s shape) has(column string) bool {
	return slices.ContainsFunc(s.columns, func(c sqltext.Column) bool { return c.Name == column })
}

func noTable(name string) error {
	return &findings.Fault{Code: "table", Schema: true, Found: "there is no table " + name, Do: "Migrate creates it"}
}

// faults is everything in which t differs from its shape.
func (t *table) faults() error {
	if !t.exists() {
		return noTable(t.name)
	}
	var faults []error
	fault := func(code, do, found string, args ...any) {
		faults = append(faults, &findings.Fault{Code: code, Schema: true, Found: "table " + t.name + fmt.Sprintf(found, args...), Do: do})
	}
	if t.emptied {
		fault("unlogged", "SET LOGGED, or accept that with Options.NonDurable", " is unlogged, or a partition of it, so a crash of the server empties it")
	}
	for _, c := range t.shape.columns {
		have, types := t.columns[c.Name].typ, typesOf[c.Type]
		if c.Name == t.shape.payload {
			types = append(types, "jsonb", "json")
		}
		switch {
		case !t.has(c.Name) && !slices.Contains(t.shape.optional, c.Name):
			fault("column", "add "+c.Definition, " has no column %q", c.Name)
		case t.has(c.Name) && !slices.Contains(types, have):
			fault("type", "change the type to "+types[0], ": column %q is %s, not %s", c.Name, have, strings.Join(types, " or "))
		}
	}
	if !slices.ContainsFunc(t.shape.keys, func(key []string) bool { return slices.Equal(key, t.key) }) {
		key := strings.Join(t.shape.keys[0], ", ")
		fault("key", "make ("+key+") the primary key; if that fails, several writers have used the table without it", " has the primary key (%s), not (%s)", strings.Join(t.key, ", "), key)
	}
	return errors.Join(faults...)
}

// inspect asks the database for the columns and the key of a table.
func (s *backend) inspect(ctx context.Context, name string, shape shape) (*table, error) {
	t := &table{name: s.tables.quoted(name), shape: shape}
	rows, err := s.reads.Query(ctx, `
		WITH RECURSIVE parts AS (SELECT to_regclass($1)::oid AS oid UNION SELECT inhrelid FROM parts JOIN pg_inherits ON inhparent = oid)
		SELECT a.attname, format_type(a.atttypid, NULL), a.atttypid, array_position(i.indkey::int2[], a.attnum) AS place,
			(SELECT bool_or(relpersistence <> 'p') FROM parts JOIN pg_class USING (oid))
		FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
		WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY place`, t.name)
	if err != nil {
		return t, err
	}
	var attribute string
	var c column
	var place *int // in the key
	_, err = pgx.ForEachRow(rows, []any{&attribute, &c.typ, &c.oid, &place, &t.emptied}, func() error {
		if t.columns == nil {
			t.columns = map[string]column{}
		}
		t.columns[attribute] = c
		if place != nil {
			t.key = append(t.key, attribute)
		}
		return nil
	})
	t.emptied = t.emptied && !s.options.NonDurable
	return t, err
}

// verify inspects the server, the tables and the role's rights. wrong is everything that is wrong with them; err says that they could not
// be inspected.
func (s *backend) verify(ctx context.Context) (wrong, err error) {
	look := func(name string, shape shape) *table {
		t, lookErr := s.inspect(ctx, name, shape)
		err = errors.Join(err, lookErr)
		return t
	}
	// YugabyteDB reads a range of slices at once, but the slices of a list one by one.
	if err := s.reads.QueryRow(ctx, "SELECT version() LIKE '%-YB-%'").Scan(&s.yugabyte); err != nil {
		return nil, err
	}
	s.journal, s.snapshot = look(s.tables.Journal, journalShape), look(s.tables.Snapshot, snapshotShape)
	s.offset, s.epoch = look(s.tables.TimestampOffset, offsetShape), look(s.tables.Epoch, epochShape)
	stateFaults := s.verifyStates(look)
	if err != nil {
		return nil, err
	}
	lacking, err := s.checkRights(ctx)
	if err != nil {
		return nil, err
	}
	faults := []error{s.journal.faults(), s.snapshot.faults(), stateFaults, lacking}
	if s.offset.exists() {
		faults = append(faults, s.offset.faults())
	}
	if s.epoch.exists() {
		wrong := s.epoch.faults()
		if wrong != nil && !s.epoch.has("through_time") {
			wrong = &findings.Fault{Code: "older-tables", Schema: true, Found: wrong.Error(), Do: "an older release made it, and Migrate upgrades it"}
		}
		faults = append(faults, wrong)
	}
	return errors.Join(faults...), nil
}
