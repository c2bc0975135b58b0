// Package watchers has the part of ability.Watcher that backends have in common.
package watchers

import (
	"context"
	"math/bits"
	"sync"

	"github.com/annals-go/annals"
)

// Signal says in which slices something was written: its bit n stands for the slices 16·n to 16·n+15. It may have more bits than
// necessary.
type Signal uint64

// Everywhere is the Signal of all slices, for writes of which no more is known.
const Everywhere = ^Signal(0)

// perBit is how many slices share a bit of a Signal.
const perBit = annals.SliceCount / 64

// SignalOf is the Signal of the slices of ids.
func SignalOf(ids ...annals.PersistenceID) (s Signal) {
	for _, id := range ids {
		s |= 1 << (id.Slice() / perBit)
	}
	return s
}

// slices are those of s, which is not 0, and those between them.
func (s Signal) slices() annals.SliceRange {
	return annals.SliceRange{From: bits.TrailingZeros64(uint64(s)) * perBit, To: bits.Len64(uint64(s)) * perBit}
}

// within is the Signal of the slices of r.
func within(r annals.SliceRange) (s Signal) {
	for slice := range annals.SliceCount {
		if r.Contains(slice) {
			s |= 1 << (slice / perBit)
		}
	}
	return s
}

// Set is the open watches of a backend. The zero Set has none. It must not be copied after first use.
type Set struct {
	// Follow, when it is not nil, runs as long as there are watches, to call Wake for the writes of other processes. It returns when its
	// ctx ends. It is set before the first Watch.
	Follow func(ctx context.Context)

	mu        sync.Mutex
	open      map[chan annals.SliceRange]Signal // to what each watch listens
	stop      context.CancelFunc                // of Follow; nil while it does not run
	following sync.WaitGroup
}

// Watch opens a watch for writes to the slices of r, and perhaps to slices near those. Its channel holds one signal, for all writes since
// it was received last, and is closed when ctx ends or by Close.
func (w *Set) Watch(ctx context.Context, r annals.SliceRange) <-chan annals.SliceRange {
	signals := make(chan annals.SliceRange, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[chan annals.SliceRange]Signal{}
	}
	w.open[signals] = within(r)
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

// Wake signals to every watch for slices in written.
func (w *Set) Wake(written Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for signals, to := range w.open {
		if written&to == 0 {
			continue
		}
		here := (written & to).slices()
		select {
		case before := <-signals:
			here = annals.SliceRange{From: min(here.From, before.From), To: max(here.To, before.To)}
		default:
		}
		signals <- here // there is no other sender
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
func (w *Set) end(signals chan annals.SliceRange) {
	if _, open := w.open[signals]; !open {
		return
	}
	delete(w.open, signals)
	close(signals)
	if len(w.open) == 0 && w.stop != nil {
		w.stop()
		w.stop = nil
	}
}
