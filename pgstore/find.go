package pgstore

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/annals-go/annals"
)

// FindStates yields the states of a type whose additional column has the value, in the order of their ids; a nil value
// finds NULL. Tombstones are left out. ErrInvalid when the type has no such column or the column takes no such value.
func (s *Store) FindStates(ctx context.Context, entityType, column string, value any) iter.Seq2[annals.State, error] {
	return view{s: s}.findStates(ctx, entityType, column, value)
}

func (v view) findStates(ctx context.Context, entityType, column string, value any) iter.Seq2[annals.State, error] {
	const op = "find states"
	return func(yield func(annals.State, error) bool) {
		t, ok := v.s.states[entityType]
		if !ok || !slices.Contains(t.Columns, column) {
			yield(annals.State{}, invalid(op, "", fmt.Errorf("type %q has no additional column %q", entityType, column)))
			return
		}
		if err := v.s.types.takes(t.columns[column], value); err != nil {
			yield(annals.State{}, invalid(op, "", fmt.Errorf("column %q: %w", column, err)))
			return
		}
		for after := ""; ; {
			page, err := v.findPage(ctx, t, entityType, column, value, after)
			if err != nil {
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

func (v view) findPage(ctx context.Context, t *stateTable, entityType, column string, value any, after string) (page []annals.State, err error) {
	c, err := v.begin(ctx, "find states", "", 0)
	if err != nil {
		return nil, err
	}
	defer c.end(&err)
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
	rows, err := v.reader().Query(c.ctx, sql, m.args...)
	if err != nil {
		return nil, err
	}
	c.result.Requests = 1
	return appendStates(nil, rows, &c.result)
}
