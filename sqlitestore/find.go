package sqlitestore

import (
	"context"
	"iter"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// FindStates is ability.StateFinder. Tombstones are left out.
func (v view) FindStates(ctx context.Context, entityType, column string, value any) iter.Seq2[annals.State, error] {
	const find = `SELECT {columns} FROM {table}
		WHERE {table}.{column} IS ? AND entity_type = ? AND state_ser_id <> 0 AND persistence_id > ? ORDER BY persistence_id LIMIT ?`
	t := v.b.types.of(entityType)
	arg, err := driver.Find(entityType, t.StateType, column, value, columnArg)
	text := strings.NewReplacer("{columns}", stateColumns, "{table}", t.table, "{column}", quote(column)).Replace(find)
	return pages(ctx, v, 0, func(ctx context.Context, q *statements, p *page[annals.State], last *annals.State) error {
		after := ""
		if last != nil {
			after = string(last.ID)
		}
		if err != nil {
			return err
		}
		return scanStates(ctx, q, p, text, arg, entityType, after, pageRows)
	})
}
