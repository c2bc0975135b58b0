package memstore

import (
	"context"

	"github.com/annals-go/annals"
)

// Watch is ability.Watcher.
func (v view) Watch(ctx context.Context, _ annals.Filter) (<-chan struct{}, error) {
	return v.watchers.Watch(ctx), nil
}
