package entity

import (
	"context"
	"errors"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/internal/host"
)

// Ask sends c to the entity named id, loads the entity from the store if it is not in memory, and returns its reply once
// everything that c decided, and everything that c was decided on, is stored. A rejection is the error of Decide, unchanged.
//
// An answer that wrote nothing, such as a rejection, is given once the store has confirmed that no other owner had written to
// the entity when Ask was called. That takes one read for all commands that are answered together, and none when one of
// them writes or the entity has just been loaded. With Options.SingleOwner the store is not asked.
//
// When ctx ends before c was decided, c does nothing and the error is ErrUnavailable with ctx's error. When it ends later
// the outcome is not known to the caller: ErrUnknown with ctx's error. Either way c runs at most once. The error is ErrOverloaded, and c does
// nothing, when Options.MaxPending commands wait.
func (r *Runtime[C, S, R]) Ask(ctx context.Context, id string, c C) (R, error) {
	result, err := r.do(ctx, id, asking, host.AnyNumber, c)
	return result.Reply, err
}

// Do is Ask with the entity's number after the command. No other state of the entity ever has this number. Commands to a
// durable state that are written together share a revision, so a command of Do is the last one of its write.
func (r *Runtime[C, S, R]) Do(ctx context.Context, id string, c C) (behavior.Result[R], error) {
	return r.do(ctx, id, doing, host.AnyNumber, c)
}

// DoAt is Do for an entity that must be exactly at number at, as in If-Match; 0 is an entity that was never written. Otherwise a c that
// would change the entity, or is rejected, does nothing, and the error is ErrConflict, which is confirmed like a rejection. A c that decides
// nothing gets its reply at any number: so the repetition of a command whose answer was lost, which Decide recognises by its key, is not
// refused because of its own success. ErrInvalid when at is negative.
func (r *Runtime[C, S, R]) DoAt(ctx context.Context, id string, at annals.SeqNr, c C) (behavior.Result[R], error) {
	if err := r.model.CheckNumber(id, at); err != nil {
		return behavior.Result[R]{}, err
	}
	return r.do(ctx, id, doing, at, c)
}

func (r *Runtime[C, S, R]) do(ctx context.Context, id string, k kind, at annals.SeqNr, value C) (behavior.Result[R], error) {
	if r.o.Observer == nil {
		return r.execute(ctx, id, k, at, value)
	}
	return r.model.Ask(ctx, id, func(ctx context.Context) (behavior.Result[R], error) { return r.execute(ctx, id, k, at, value) })
}

func (r *Runtime[C, S, R]) execute(ctx context.Context, id string, k kind, at annals.SeqNr, value C) (result behavior.Result[R], err error) {
	c := r.newCommand(ctx, k)
	c.value, c.at = value, at
	if err := r.submit(id, c); err != nil {
		return result, err
	}
	result, err = c.result, c.err
	r.recycle(c)
	return result, err
}

func (r *Runtime[C, S, R]) newCommand(ctx context.Context, k kind) *command[C, S, R] {
	c := r.commands.Get().(*command[C, S, R])
	c.ctx, c.kind, c.at, c.fresh, c.pending = ctx, k, host.AnyNumber, !r.o.SingleOwner, &r.pending
	return c
}

// recycle makes c ready for another call. c was answered, and no other goroutine has it.
func (r *Runtime[C, S, R]) recycle(c *command[C, S, R]) {
	done := c.done
	*c = command[C, S, R]{done: done}
	r.commands.Put(c)
}

// errInTx refuses a command that could wait for a transaction, which waits for the command's answer.
var errInTx = errors.New("the context is that of a transaction of the runtime's own store")

// submit hands c to the entity named id and waits until it is answered. After an error it is not, and c must not be used again.
func (r *Runtime[C, S, R]) submit(id string, c *command[C, S, R]) error {
	ctx, op := c.ctx, c.kind.op()
	if err := ctx.Err(); err != nil {
		pid, _ := r.model.Identify(op, id)
		return &annals.Error{Op: op, ID: pid, Kind: annals.ErrUnavailable, Err: err}
	}
	if r.own != nil && r.own.Within(ctx) {
		pid, _ := r.model.Identify(op, id)
		return &annals.Error{Op: op, ID: pid, Kind: annals.ErrInvalid, Err: errInTx}
	}
	if n := r.pending.Add(1); n > int64(r.o.MaxPending) {
		r.pending.Add(-1)
		pid, _ := r.model.Identify(op, id)
		return &annals.Error{Op: op, ID: pid, Kind: annals.ErrOverloaded, Err: fmt.Errorf("%d commands wait", r.o.MaxPending)}
	}
	if err := r.deliver(id, c); err != nil {
		r.pending.Add(-1)
		return err
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
	}
	kind := annals.ErrUnavailable
	switch {
	case c.leave():
		r.abandon(id, c)
	case c.kind == evicting: // it is about to be answered
		<-c.done
		return nil
	default:
		select {
		case <-c.done:
			return nil
		default: // decided, and perhaps being written: the answer is dropped
		}
		if c.kind != viewing {
			kind = annals.ErrUnknown
		}
	}
	return &annals.Error{Op: op, ID: r.model.ID(id), Kind: kind, Err: ctx.Err()}
}

// deliver hands c to its entity, or has it wait until the entity can be in memory.
func (r *Runtime[C, S, R]) deliver(id string, c *command[C, S, R]) error {
	r.mu.Lock()
	e := r.live[id]
	if e == nil {
		r.mu.Unlock()
		pid, err := r.model.Identify(c.kind.op(), id)
		if err != nil {
			return err
		}
		r.mu.Lock()
		if r.closed {
			r.mu.Unlock()
			return closedError(c.kind.op(), pid)
		}
		if e = r.activate(id, pid); e == nil {
			c.place = r.queue.PushBack(&waitingCommand[C, S, R]{id, pid, c})
			r.mu.Unlock()
			return nil
		}
	}
	if r.closed {
		r.mu.Unlock()
		return closedError(c.kind.op(), e.pid)
	}
	work := r.wake(e, c)
	r.mu.Unlock()
	if work {
		e.begin()
	}
	return nil
}

func closedError(op string, pid annals.PersistenceID) error {
	return &annals.Error{Op: op, ID: pid, Kind: annals.ErrClosed}
}
