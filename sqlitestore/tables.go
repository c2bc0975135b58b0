package sqlitestore

import (
	"context"
	"fmt"
	"slices"

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
	if len(there) == 0 {
		return []error{fmt.Errorf("there is no table %q", t.name)}, nil
	}
	columns, key := sqltext.Columns(t.create)
	for _, want := range columns {
		switch c, ok := there[want.Name]; {
		case !ok:
			faults = append(faults, fmt.Errorf("table %q has no column %q", t.name, want.Name))
		case want.NotNull && !c.notNull:
			faults = append(faults, fmt.Errorf("table %q: column %q takes NULL", t.name, want.Name))
		}
	}
	for i, name := range key {
		if c, ok := there[name]; ok && c.key != i+1 {
			faults = append(faults, fmt.Errorf("table %q: column %q is not number %d of the primary key", t.name, name, i+1))
		}
	}
	return faults, nil
}

// checkIndex is ErrInvalid where the index is missing.
func (t table) checkIndex(ctx context.Context, q *statements) error {
	there, err := q.row(ctx, `SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?`, []any{t.indexName()}, func(*values) {})
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
	columns, _ := sqltext.Columns(t.create)
	for _, c := range columns {
		if _, ok := there[c.Name]; ok || !slices.Contains(t.added, c.Name) {
			continue
		}
		if _, err := q.exec(ctx, `ALTER TABLE `+quote(t.name)+` ADD COLUMN `+c.Definition); err != nil {
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
