package ability

import (
	"context"

	"github.com/annals-go/annals"
)

// Watcher is an optional ability of a Store: a signal that something matching f may be new, so followers need not poll.
type Watcher interface {
	Watch(ctx context.Context, f annals.Filter) (<-chan struct{}, error) // closed when ctx ends
}
