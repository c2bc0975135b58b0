package sqlitestore

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/statetype"
)

// FindStates is ability.StateFinder. Tombstones are left out.
func (v view) FindStates(ctx context.Context, entityType, column string, value any) iter.Seq2[annals.State, error] {
	t := v.b.types.of(entityType)
	arg, err := statetype.Find(entityType, t.StateType, column, value, columnArg)
	text := `SELECT ` + stateColumns + ` FROM ` + t.table + ` WHERE ` + t.table + `.` + quote(column) + ` IS ?
		AND entity_type = ? AND state_ser_id <> 0 AND persistence_id > ? ORDER BY persistence_id LIMIT ?`
	return pages(ctx, v, annals.Filter{}, annals.State.Offset, func(ctx context.Context, q *statements, f annals.Filter, p *page[annals.State]) error {
		if err != nil {
			return err
		}
		return scanStates(ctx, q, p, text, arg, entityType, string(f.After.ID), pageRows)
	})
}
