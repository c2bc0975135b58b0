package sqlitestore

import (
	"context"
	"sync"

	"github.com/annals-go/annals"
)

// watchers are woken behind every commit of this Store.
type watchers struct {
	mu      sync.Mutex
	all     map[chan struct{}]struct{}
	stopped bool
}

// Watch implements annals.Watcher. The channel holds one signal for any number of commits.
func (s *Store) Watch(ctx context.Context, f annals.Filter) (<-chan struct{}, error) {
	call := annals.Call{Op: "watch"}
	if err := validFilter(call, f); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, withdrawn(ctx, call.Op, "")
	}
	ch := make(chan struct{}, 1)
	w := &s.watchers
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return nil, &annals.Error{Op: call.Op, Kind: annals.ErrClosed}
	}
	if w.all == nil {
		w.all = map[chan struct{}]struct{}{}
	}
	w.all[ch] = struct{}{}
	context.AfterFunc(ctx, func() { w.end(ch) })
	return ch, nil
}

func (w *watchers) end(ch chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, there := w.all[ch]; there {
		delete(w.all, ch)
		close(ch)
	}
}

func (w *watchers) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.all {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// stop closes every channel: nothing more will come.
func (w *watchers) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	for ch := range w.all {
		delete(w.all, ch)
		close(ch)
	}
}
