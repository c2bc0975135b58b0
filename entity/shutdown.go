package entity

import (
	"context"

	"github.com/annals-go/annals"
)

func (g *engine[C, S, R]) shutdown(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	g.checkDrained()
	g.mu.Unlock()
	select {
	case <-g.drained:
		return nil
	default:
	}
	select {
	case <-g.drained:
		return nil
	case <-ctx.Done():
		g.halt()
		return &annals.Error{Op: "shutdown", Kind: annals.ErrUnknown, Err: ctx.Err()}
	}
}

// checkDrained ends the runtime when it is closed and no entity is at work: then nobody waits for room either. g.mu is held.
func (g *engine[C, S, R]) checkDrained() {
	if !g.closed || g.active > 0 || g.live == nil {
		return
	}
	g.stop()
	g.live, g.idle = nil, idlers[C, S, R]{}
	if g.sweeper != nil {
		g.sweeper.Stop()
	}
	close(g.drained)
}

// halt cancels what is in flight and refuses what waits.
func (g *engine[C, S, R]) halt() {
	g.stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	for front := g.crowd.Front(); front != nil; front = g.crowd.Front() {
		a := g.crowd.Remove(front).(*arrival[C, R])
		a.command.place = nil
		a.command.refuse(g.closedError(a.pid))
	}
	g.checkDrained()
}
