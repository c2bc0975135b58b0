package sqlitestore

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// table is a table with its key and the index by which followers read.
type table struct {
	name    string
	columns []string // definitions, which begin with the name
	key     []string
	options string
	index   string // what it is on; "" for none
}

// create is the statement that makes the table.
func (t table) create(ifNotExists string) string {
	definitions := t.columns
	if len(t.key) > 0 {
		definitions = append(slices.Clip(definitions), "PRIMARY KEY ("+strings.Join(t.key, ", ")+")")
	}
	return "CREATE TABLE " + ifNotExists + " " + t.name + " (\n\t" + strings.Join(definitions, ",\n\t") + "\n) " + t.options
}

// createIndex is the statement that makes the index, unless it is there; "" where there is none.
func (t table) createIndex() string {
	if t.index == "" {
		return ""
	}
	return "CREATE INDEX IF NOT EXISTS " + quote(t.name+"_time_idx") + " ON " + quote(t.name) + " " + t.index
}

// faults says what the columns that are there lack. A column that takes NULL, and another key, would let through what the
// store relies on SQLite to refuse.
func (t table) faults(there map[string]column) (faults []error) {
	if len(there) == 0 {
		return []error{fmt.Errorf("there is no table %q", t.name)}
	}
	for _, definition := range t.columns {
		name, _, _ := strings.Cut(definition, " ")
		switch c, ok := there[name]; {
		case !ok:
			faults = append(faults, fmt.Errorf("table %q has no column %q", t.name, name))
		case !c.notNull && strings.Contains(definition, "NOT NULL"):
			faults = append(faults, fmt.Errorf("table %q: column %q takes NULL", t.name, name))
		}
	}
	for i, name := range t.key {
		if c, ok := there[name]; ok && c.key != i+1 {
			faults = append(faults, fmt.Errorf("table %q: column %q is not number %d of the primary key", t.name, name, i+1))
		}
	}
	return faults
}

// names are those of the columns.
func (t table) names() []string {
	names := make([]string, len(t.columns))
	for i, definition := range t.columns {
		names[i], _, _ = strings.Cut(definition, " ")
	}
	return names
}

// column is what SQLite says of a column.
type column struct {
	notNull bool
	key     int // its place in the primary key, from 1; 0 where it is not in it
}

// columnsOf are the columns of a table, by folded name; none where there is no such table.
func columnsOf(ctx context.Context, q *statements, table string) (map[string]column, error) {
	columns := map[string]column{}
	err := q.rows(ctx, `SELECT name, "notnull", pk FROM pragma_table_info(?)`, []any{table}, func(v *values) (bool, error) {
		columns[fold(v.text("name"))] = column{v.any64("notnull") != 0, int(v.any64("pk"))}
		return true, v.corrupt()
	})
	return columns, err
}
