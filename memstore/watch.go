package memstore

import (
	"context"
	"sync"

	"github.com/annals-go/annals"
)

// watchers are the open watches.
type watchers struct {
	mu   sync.Mutex
	open map[chan struct{}]bool
}

// Watch is annals.Watcher.
func (v view) Watch(ctx context.Context, _ annals.Filter) (<-chan struct{}, error) {
	signals := make(chan struct{}, 1)
	w := &v.watchers
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[chan struct{}]bool{}
	}
	w.open[signals] = true
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.end(signals)
	})
	return signals, nil
}

// wake signals to each watch. A signal that has not been received counts for all writes since.
func (w *watchers) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for signals := range w.open {
		select {
		case signals <- struct{}{}:
		default:
		}
	}
}

func (w *watchers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for signals := range w.open {
		w.end(signals)
	}
}

// end closes a watch. The lock is held.
func (w *watchers) end(signals chan struct{}) {
	if w.open[signals] {
		delete(w.open, signals)
		close(signals)
	}
}
