package sqlitestore

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// table is a table of the store, with the index by which queries read it in the order of time.
type table struct {
	name   string
	create string   // the statement, one column per line
	index  string   // the statement; "" where there is no index
	added  []string // columns that an older release did not have; they may be NULL
}

func (t table) indexName() string { return t.name + "_time_idx" }

// statements create the table and the index where they are missing.
func (t table) statements() []string {
	if t.index == "" {
		return []string{t.create}
	}
	return []string{t.create, t.index}
}

// columns are the definitions of the columns, and key the names of the primary key.
func (t table) columns() (columns, key []string) {
	for line := range strings.Lines(t.create) {
		line, isColumn := strings.CutPrefix(strings.TrimRight(line, ",\n"), "\t")
		if names, isKey := strings.CutPrefix(line, "PRIMARY KEY ("); isKey {
			key = strings.Split(strings.TrimSuffix(names, ")"), ", ")
		} else if isColumn {
			columns = append(columns, line)
		}
	}
	return columns, key
}

// faults are the differences between the table as the store needs it and as it is. A column that takes NULL, and another primary
// key, would let SQLite accept what the store relies on it to refuse.
func (t table) faults(ctx context.Context, q *statements) (faults []error, err error) {
	there, err := columnsOf(ctx, q, t.name)
	if err != nil {
		return nil, err
	}
	if len(there) == 0 {
		return []error{fmt.Errorf("there is no table %q", t.name)}, nil
	}
	columns, key := t.columns()
	for _, definition := range columns {
		name := columnName(definition)
		switch c, ok := there[name]; {
		case !ok:
			faults = append(faults, fmt.Errorf("table %q has no column %q", t.name, name))
		case !c.notNull && strings.Contains(definition, "NOT NULL"):
			faults = append(faults, fmt.Errorf("table %q: column %q takes NULL", t.name, name))
		}
	}
	for i, name := range key {
		if c, ok := there[name]; ok && c.key != i+1 {
			faults = append(faults, fmt.Errorf("table %q: column %q is not number %d of the primary key", t.name, name, i+1))
		}
	}
	return faults, nil
}

// names are those of the columns.
func (t table) names() []string {
	columns, _ := t.columns()
	for i, definition := range columns {
		columns[i] = columnName(definition)
	}
	return columns
}

func columnName(definition string) string {
	name, _, _ := strings.Cut(definition, " ")
	return name
}

// createIndex creates the index where it is missing.
func (t table) createIndex(ctx context.Context, q *statements) error {
	if t.index == "" {
		return nil
	}
	_, err := q.exec(ctx, t.index)
	return err
}

// checkIndex is ErrInvalid where the index is missing.
func (t table) checkIndex(ctx context.Context, q *statements) error {
	const exists = `SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?`
	if t.index == "" {
		return nil
	}
	there, err := q.row(ctx, exists, []any{t.indexName()}, func(*values) {})
	if err == nil && !there {
		return invalid(fmt.Sprintf("there is no index %q: Migrate creates it", t.indexName()))
	}
	return err
}

// addColumns adds to a table that exists the columns that an older release did not have.
func (t table) addColumns(ctx context.Context, q *statements) error {
	there, err := columnsOf(ctx, q, t.name)
	if err != nil || len(there) == 0 {
		return err
	}
	columns, _ := t.columns()
	for _, definition := range columns {
		name := columnName(definition)
		if _, ok := there[name]; ok || !slices.Contains(t.added, name) {
			continue
		}
		if _, err := q.exec(ctx, `ALTER TABLE `+quote(t.name)+` ADD COLUMN `+definition); err != nil {
			return err
		}
	}
	return nil
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
