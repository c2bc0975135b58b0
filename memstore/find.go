package memstore

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/annals-go/annals"
)

// FindStates is annals.StateFinder.
func (v view) FindStates(ctx context.Context, entityType, name string, value any) iter.Seq2[annals.State, error] {
	wanted, err := column(value)
	if err == nil && !slices.Contains(v.types[entityType].Columns, name) {
		err = fmt.Errorf("type %q has no additional column %q", entityType, name)
	}
	if err != nil {
		return func(yield func(annals.State, error) bool) {
			yield(annals.State{}, &annals.Error{Kind: annals.ErrInvalid, Err: err})
		}
	}
	return fetched(ctx, func(ctx context.Context) (found []annals.State) {
		d, unlock := v.read(ctx)
		defer unlock()
		for id, row := range d.states {
			if id.Type() == entityType && !row.Deleted && row.columns[name] == wanted {
				found = append(found, row.State)
			}
		}
		return found
	})
}
