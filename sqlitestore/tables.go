package sqlitestore

import (
	"context"
	"fmt"
	"slices"

	"github.com/annals-go/annals/internal/findings"
	"github.com/annals-go/annals/internal/sqltext"
)

// table is a table of the store, with the index by which queries read it in the order of time.
type table struct {
	name   string
	create string   // the statement, one column per line
	index  string   // the statement; "" where there is no index
	added  []string // columns that an older release did not have; they may be NULL
}

func (t table) indexName() string { return t.name + "_time_idx" }

// faults are the differences between the table as the store needs it and as it is. A column that takes NULL, and another primary
// key, would let SQLite accept what the store relies on it to refuse.
func (t table) faults(ctx context.Context, q *statements) (faults []error, err error) {
	there, err := columnsOf(ctx, q, t.name)
	if err != nil {
		return nil, err
	}
	fault := func(code, found string, args ...any) {
		faults = append(faults, &findings.Fault{Code: code, Schema: true, Found: fmt.Sprintf(found, args...), Do: "another program has changed the tables: compare with a backup"})
	}
	if len(there) == 0 {
		fault("table", "there is no table %q", t.name)
		return faults, nil
	}
	columns, key := sqltext.Columns(t.create)
	for _, want := range columns {
		switch c, ok := there[want.Name]; {
		case !ok:
			fault("column", "table %q has no column %q", t.name, want.Name)
		case want.NotNull && !c.notNull:
			fault("column", "table %q: column %q takes NULL", t.name, want.Name)
		}
	}
	for i, name := range key {
		if c, ok := there[name]; ok && c.key != i+1 {
			fault("key", "table %q: column %q is not number %d of the primary key", t.name, name, i+1)
		}
	}
	return faults, nil
}

// checkIndex is ErrInvalid where the index is missing.
func (t table) checkIndex(ctx context.Context, q *statements) error {
	there, err := t.hasIndex(ctx, q)
	if err == nil && !there {
		return refusal("index", fmt.Sprintf("there is no index %q", t.indexName()), "Migrate creates it")
	}
	return err
}

// hasIndex reports whether the index is there, or the table needs none.
func (t table) hasIndex(ctx context.Context, q *statements) (bool, error) {
	if t.index == "" {
		return true, nil
	}
	return q.row(ctx, `SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?`, []any{t.indexName()}, func(*values) {})
}

// missing are the statements that add to a table that exists the columns that an older release did not have.
func (t table) missing(ctx context.Context, q *statements) (all []string, err error) {
	there, err := columnsOf(ctx, q, t.name)
	if err != nil || len(there) == 0 {
		return nil, err
	}
	columns, _ := sqltext.Columns(t.create)
	for _, c := range columns {
		if _, ok := there[c.Name]; !ok && slices.Contains(t.added, c.Name) {
			all = append(all, `ALTER TABLE `+quote(t.name)+` ADD COLUMN `+c.Definition)
		}
	}
	return all, nil
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
