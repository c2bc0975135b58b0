package memstore

import (
	"context"

	"github.com/annals-go/annals"
)

// Watch is ability.Watcher.
func (v view) Watch(ctx context.Context, f annals.Filter) (<-chan annals.SliceRange, error) {
	return v.watchers.Watch(ctx, f.Slices), nil
}
