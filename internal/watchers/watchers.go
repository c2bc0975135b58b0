// Package watchers has the part of ability.Watcher that backends have in common.
package watchers

import (
	"context"
	"sync"
)

// Set is the open watches of a backend. The zero Set has none. It must not be copied after first use.
type Set struct {
	// Follow, when it is not nil, runs as long as there are watches, to call Wake for the writes of other processes. It returns when its
	// ctx ends. It is set before the first Watch.
	Follow func(ctx context.Context)

	mu        sync.Mutex
	open      map[chan struct{}]bool
	stop      context.CancelFunc // of Follow; nil while it does not run
	following sync.WaitGroup
}

// Watch opens a watch. Its channel holds one signal, for all writes since it was received last, and is closed when ctx ends or by Close.
func (w *Set) Watch(ctx context.Context) <-chan struct{} {
	signals := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[chan struct{}]bool{}
	}
	w.open[signals] = true
	if w.Follow != nil && w.stop == nil {
		follow, stop := context.WithCancel(context.WithoutCancel(ctx))
		w.stop = stop
		w.following.Go(func() { w.Follow(follow) })
	}
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.end(signals)
	})
	return signals
}

// Wake signals to every watch.
func (w *Set) Wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for signals := range w.open {
		select {
		case signals <- struct{}{}:
		default:
		}
	}
}

// Close ends every watch, and waits for Follow.
func (w *Set) Close() {
	w.mu.Lock()
	for signals := range w.open {
		w.end(signals)
	}
	w.mu.Unlock()
	w.following.Wait()
}

// end closes a watch, and stops Follow with the last. The lock is held.
func (w *Set) end(signals chan struct{}) {
	if !w.open[signals] {
		return
	}
	delete(w.open, signals)
	close(signals)
	if len(w.open) == 0 && w.stop != nil {
		w.stop()
		w.stop = nil
	}
}
