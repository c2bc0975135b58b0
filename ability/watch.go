package ability

import (
	"context"

	"github.com/annals-go/annals"
)

// Watcher is an optional ability of a Store: a signal that something matching f may be new, so followers need not poll.
type Watcher interface {
	// Watch returns a channel of signals, which is closed when ctx ends. A signal says in which slices something was written since the one before
	// was received, and may have more slices; the zero SliceRange is all slices.
	Watch(ctx context.Context, f annals.Filter) (<-chan annals.SliceRange, error)
}
