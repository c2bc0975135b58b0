package sqlitestore

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/annals-go/annals"
)

// FindStates is annals.StateFinder. Tombstones are left out.
func (v view) FindStates(ctx context.Context, entityType, column string, value any) iter.Seq2[annals.State, error] {
	t := v.b.types.of(entityType)
	arg, err := columnArg(value)
	if err == nil && !slices.Contains(t.Columns, column) {
		err = fmt.Errorf("type %q has no additional column %q", entityType, column)
	}
	if err != nil {
		return func(yield func(annals.State, error) bool) { yield(annals.State{}, invalid(err.Error())) }
	}
	text := `SELECT ` + stateColumns + ` FROM ` + t.table + `
		WHERE ` + t.table + `.` + quote(column) + ` IS ? AND entity_type = ? AND state_ser_id <> 0 AND persistence_id > ?
		ORDER BY persistence_id LIMIT ?`
	return pages(ctx, v, 0, func(ctx context.Context, q *statements, p *page[annals.State], last *annals.State) error {
		after := ""
		if last != nil {
			after = string(last.ID)
		}
		return scanStates(ctx, q, p, text, arg, entityType, after, pageRows)
	})
}
