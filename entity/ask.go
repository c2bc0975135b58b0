package entity

import (
	"context"
	"errors"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/host"
)

// Ask sends c to the entity named id, activating it on first use, and returns its reply once everything that c decided,
// and everything it was decided on, is stored. A rejection is Decide's own error, unchanged.
//
// An answer that wrote nothing, such as a rejection, is given once the store has confirmed that no other owner had written to
// the entity when Ask was called. That takes one look at the store for all commands that are answered together, and none when
// one of them writes or the entity has just been loaded. Options.SingleOwner does without.
//
// When ctx ends before c was decided, c does nothing and the error is ErrUnavailable with ctx's error. When it ends later
// the outcome is not known to the caller: ErrUnknown with ctx's error. Either way c runs at most once, and its reply goes
// nowhere else.
func (r *Runtime[C, S, R]) Ask(ctx context.Context, id string, c C) (R, error) {
	return r.ask(ctx, id, c, false)
}

// Fresh is Ask without what Options.SingleOwner allows: an answer that wrote nothing is confirmed by the store.
func (r *Runtime[C, S, R]) Fresh(ctx context.Context, id string, c C) (R, error) {
	return r.ask(ctx, id, c, true)
}

// errInTx refuses a command that could wait for a transaction, which waits for the command's answer.
var errInTx = errors.New("the context is that of a transaction of the runtime's own store")

func (r *Runtime[C, S, R]) ask(ctx context.Context, id string, value C, fresh bool) (reply R, err error) {
	if err := ctx.Err(); err != nil {
		pid, _ := host.Identify(r.model, "ask", id, r.limits)
		return reply, notDecided(pid, err)
	}
	if annals.ContextInTx(ctx, r.store) {
		pid, _ := host.Identify(r.model, "ask", id, r.limits)
		return reply, &annals.Error{Op: "ask", ID: pid, Kind: annals.ErrInvalid, Err: errInTx}
	}
	c := r.commands.Get().(*command[C, R])
	c.ctx, c.value, c.fresh = ctx, value, fresh || !r.o.SingleOwner
	if err := r.deliver(id, c); err != nil {
		return reply, err
	}
	select {
	case <-c.done:
		return r.finish(c)
	case <-ctx.Done():
	}
	if c.leave() {
		r.abandon(c)
		return reply, notDecided(r.model.ID(id), ctx.Err())
	}
	select {
	case <-c.done:
		return r.finish(c)
	default: // decided, and perhaps being written: nobody listens to the answer any more
		return reply, &annals.Error{Op: "ask", ID: r.model.ID(id), Kind: annals.ErrUnknown, Err: ctx.Err()}
	}
}

// finish takes the answer out of c, which nobody else holds any more.
func (r *Runtime[C, S, R]) finish(c *command[C, R]) (R, error) {
	reply, err := c.reply, c.err
	done := c.done
	*c = command[C, R]{done: done}
	r.commands.Put(c)
	return reply, err
}

// deliver hands c to its entity, or has it wait for room.
func (r *Runtime[C, S, R]) deliver(id string, c *command[C, R]) error {
	r.mu.Lock()
	e := r.live[id]
	if e == nil {
		r.mu.Unlock()
		pid, err := host.Identify(r.model, "ask", id, r.limits)
		if err != nil {
			return err
		}
		r.mu.Lock()
		if r.closed {
			r.mu.Unlock()
			return r.closedError(pid)
		}
		if e = r.activate(id, pid); e == nil {
			c.place = r.crowd.PushBack(&arrival[C, R]{id, pid, c})
			r.mu.Unlock()
			return nil
		}
	}
	if r.closed {
		r.mu.Unlock()
		return r.closedError(e.pid)
	}
	work := r.wake(e, c)
	r.mu.Unlock()
	if work {
		go e.work()
	}
	return nil
}

func (r *Runtime[C, S, R]) closedError(pid annals.PersistenceID) error {
	return &annals.Error{Op: "ask", ID: pid, Kind: annals.ErrClosed}
}
