package memstore

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/statetype"
)

// FindStates is ability.StateFinder.
func (v view) FindStates(ctx context.Context, entityType, column string, value any) iter.Seq2[annals.State, error] {
	return driver.Pages(ctx, func(ctx context.Context) (found []annals.State, _ bool, err error) {
		wanted, err := statetype.Find(entityType, v.types[entityType], column, value, keep)
		if err != nil {
			return nil, false, err
		}
		d, unlock := v.read()
		defer unlock()
		for id, row := range d.states.all() {
			if id.Type() == entityType && !row.Deleted && row.columns[column] == wanted {
				found = append(found, row.State)
			}
		}
		return found, false, nil
	})
}
