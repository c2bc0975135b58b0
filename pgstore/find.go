package pgstore

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// FindStates implements annals.StateFinder.
func (v *view) FindStates(ctx context.Context, entityType, column string, value any) iter.Seq2[annals.State, error] {
	return func(yield func(annals.State, error) bool) {
		t, ok := v.s.states[entityType]
		if !ok || !slices.Contains(t.Columns, column) {
			yield(annals.State{}, invalid(fmt.Errorf("type %q has no additional column %q", entityType, column)))
			return
		}
		if err := v.s.types.takes(t.columns[column], value); err != nil {
			yield(annals.State{}, invalid(fmt.Errorf("column %q: %w", column, err)))
			return
		}
		for after := ""; ; {
			var page []annals.State
			if err := driver.Fetch(ctx, func(ctx context.Context) (err error) {
				page, err = v.findPage(ctx, t, entityType, column, value, after)
				return err
			}); err != nil {
				yield(annals.State{}, err)
				return
			}
			for _, s := range page {
				if !yield(s, nil) {
					return
				}
				after = string(s.ID)
			}
			if len(page) < queryPage {
				return
			}
		}
	}
}

func (v *view) findPage(ctx context.Context, t *stateTable, entityType, column string, value any, after string) ([]annals.State, error) {
	m := &condition{}
	m.and("entity_type = %s", m.arg(entityType))
	m.and("persistence_id > %s", m.arg(after))
	m.and("state_ser_id <> 0")
	if value == nil {
		m.and("%s IS NULL", quote(column))
	} else {
		m.and("%s = %s", quote(column), m.arg(value))
	}
	sql := v.s.fill(`SELECT {columns} FROM {state} WHERE {condition} ORDER BY persistence_id LIMIT {limit}`,
		"{columns}", t.sql.columns, "{state}", t.name, "{condition}", m.where(), "{limit}", strconv.Itoa(queryPage))
	return v.queryStates(ctx, sql, m.args...)
}

// queryStates runs a query for stateStatements.columns.
func (v *view) queryStates(ctx context.Context, sql string, args ...any) ([]annals.State, error) {
	driver.Count(ctx, annals.Result{Requests: 1})
	rows, err := v.reader().Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return appendStates(nil, rows)
}
