package driver

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals/internal/bound"
)

// gate counts the calls under way, so that Close can wait for them.
type gate struct {
	once   sync.Once // of Close
	shut   atomic.Bool
	mu     sync.Mutex // held to add to a group, and to close
	reads  sync.WaitGroup
	writes sync.WaitGroup
}

func (g *gate) group(write bool) *sync.WaitGroup {
	if write {
		return &g.writes
	}
	return &g.reads
}

// enter returns false when the gate is closed.
func (g *gate) enter(write bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut.Load() {
		return false
	}
	g.group(write).Add(1)
	return true
}

func (g *gate) leave(write bool) { g.group(write).Done() }

// close waits until all have left; for reads no longer than d, zero for no bound. It returns false when reads have not.
func (g *gate) close(d time.Duration) bool {
	g.mu.Lock()
	g.shut.Store(true)
	g.mu.Unlock()
	g.writes.Wait()
	return bound.Wait(d, g.reads.Wait)
}
