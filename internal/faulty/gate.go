package faulty

import (
	"context"
	"sync"
)

// Gate holds calls up while a process is stopped. The zero Gate is open. It may be used concurrently.
type Gate struct {
	mu   sync.Mutex
	shut chan struct{} // nil while the gate is open
}

// Shut lets no call pass until Open is called, once.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = make(chan struct{})
}

// Open lets calls pass again.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.shut)
	g.shut = nil
}

// Pass returns when the gate is open, or ctx has ended.
func (g *Gate) Pass(ctx context.Context) {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		select {
		case <-shut:
		case <-ctx.Done():
		}
	}
}
