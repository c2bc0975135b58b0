package entity

import (
	"context"

	"github.com/annals-go/annals"
)

// Shutdown refuses new commands with ErrClosed and returns when the accepted ones are answered. When ctx ends first, Shutdown cancels the
// calls to the store. Callers whose commands may be stored get ErrUnknown, the others ErrClosed, and Shutdown returns ErrUnknown with ctx's
// error. It may be called more than once. The store stays open.
func (r *Runtime[C, S, R]) Shutdown(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.checkDrained()
	r.mu.Unlock()
	select {
	case <-r.drained:
		return nil
	default:
	}
	select {
	case <-r.drained:
		return nil
	case <-ctx.Done():
		r.halt()
		return &annals.Error{Op: "shutdown", Kind: annals.ErrUnknown, Err: ctx.Err()}
	}
}

// checkDrained ends the runtime when it is closed and all entities are idle: then the queue is empty, too. r.mu is held.
func (r *Runtime[C, S, R]) checkDrained() {
	if !r.closed || r.active > 0 || r.live == nil {
		return
	}
	r.stop()
	r.live, r.idle = nil, idleList[C, S, R]{}
	if r.sweeper != nil {
		r.sweeper.Stop()
	}
	close(r.drained)
}

// halt cancels the writes in flight and refuses the commands in the queue.
func (r *Runtime[C, S, R]) halt() {
	r.stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.live {
		e.resume()
	}
	for front := r.queue.Front(); front != nil; front = r.queue.Front() {
		a := r.queue.Remove(front).(*waitingCommand[C, S, R])
		a.command.place = nil
		a.command.refuse(closedError(a.command.kind.op(), a.pid))
	}
	r.checkDrained()
}
