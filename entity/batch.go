package entity

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/internal/host"
)

// batch is the commands that are answered together after one write: those that wrote, and those that were decided on a state which this
// write makes durable. When no command wrote, the batch is answered after a look at the store.
type batch[C, S, R any] struct {
	commands []*command[C, S, R]
	writers  int  // commands that decided something
	full     bool // no command may be added
	last     bool // of the entity's turn: nothing is decided before it is stored, because a pause follows
	views    bool // there are Views that have not run: see show

	write  host.Write
	ctx    context.Context // of the write, with the values of the callers
	err    error           // of the write, once it has ended, or of the codec
	sealed bool            // the write was encoded: err is not of the codec
	finish *finish[R]      // nil: the state does not depend on the receipt of the write
}

// finish is what is left to do for the last command of a batch when its write has succeeded: host.Decision.Finish.
type finish[R any] struct {
	run     func(context.Context, *host.Write, annals.Receipt) (R, error)
	receipt annals.Receipt
}

// len is how many commands b has. A nil batch has none.
func (b *batch[C, S, R]) len() int {
	if b == nil {
		return 0
	}
	return len(b.commands)
}

func (b *batch[C, S, R]) add(c *command[C, S, R], wrote bool) {
	b.commands = append(b.commands, c)
	if wrote {
		b.writers++
	}
}

// accepts reports whether another command may be added, of at most limit.
func (b *batch[C, S, R]) accepts(limit int) bool {
	n := b.len()
	return n == 0 || n < limit && !b.full
}

// reset empties b. It keeps its memory, but no payloads, and not the memory of a large batch.
func (b *batch[C, S, R]) reset() {
	commands, events := b.commands[:0], b.write.Commit.Events[:0]
	clear(b.commands)
	clear(b.write.Commit.Events)
	*b = batch[C, S, R]{}
	if cap(commands) <= keptCapacity {
		b.commands = commands
	}
	if cap(events) <= keptCapacity {
		b.write.Commit.Events = events
	}
}

// keptCapacity is how many elements a slice may have that is kept for later use.
const keptCapacity = 64

// freeBatch keeps b for another entity.
func (r *Runtime[C, S, R]) freeBatch(b *batch[C, S, R]) {
	b.reset()
	r.batches.Put(b)
}

// seal makes the next batch the current one and reports whether it must be sent. If not, it is settled already.
func (e *entity[C, S, R]) seal(snapshot bool) bool {
	b := e.next
	e.current, e.next = b, nil
	if b.views {
		b.show(e.state)
	}
	b.err = e.state.Seal(&b.write, snapshot)
	b.sealed = b.err == nil
	if b.write.Empty {
		b.answerStored()
	}
	if b.err != nil || len(b.commands) == 0 {
		e.settle()
		return false
	}
	return true
}

// show runs the Views of b that could not run when they were decided, because later commands could change the state under the same
// number: those of a durable state that are written together share one revision.
func (b *batch[C, S, R]) show(state host.Entity[C, S, R]) {
	for _, c := range b.commands {
		if c.kind == viewing {
			c.err = state.View(c.view)
		}
	}
}

// send sends the current batch. Meanwhile other goroutines can work on the entity and decide commands. It reports whether this goroutine works
// on it again afterwards.
func (e *entity[C, S, R]) send() bool {
	b := e.current
	if !b.write.Empty && !e.runtime.o.SingleOwner {
		b.last = e.turns.Sent()
	}
	e.mu.Lock()
	e.writing, e.working = true, false
	if e.startWork() {
		e.begin()
	}
	e.mu.Unlock()
	e.current.err = e.runtime.send(e.current)
	return e.sent()
}

// sent records that the current batch has an outcome, and reports whether the caller now works on the entity.
func (e *entity[C, S, R]) sent() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.writing, e.written = false, true
	return e.startWork()
}

// answerStored answers the commands of a batch that writes nothing: everything that they were decided on is stored by now. Those whose
// answer the store must confirm stay in the batch.
func (b *batch[C, S, R]) answerStored() {
	b.commands = slices.DeleteFunc(b.commands, func(c *command[C, S, R]) bool {
		if c.fresh {
			return false
		}
		c.answer()
		return true
	})
}

// send writes b, or asks the store whether another owner has written.
func (r *Runtime[C, S, R]) send(b *batch[C, S, R]) error {
	ctx, now := r.writes.context()
	b.ctx, b.write.Began = onBehalf(ctx, b.commands), now
	if b.write.Empty {
		return r.model.Confirm(b.ctx, &b.write)
	}
	receipt, err := r.model.Write(b.ctx, &b.write)
	if b.finish != nil {
		b.finish.receipt = receipt
	}
	return err
}

// settle answers the commands of the current batch, or has them decided again, depending on the outcome of the write.
func (e *entity[C, S, R]) settle() {
	b := e.current
	e.current = nil
	switch err := b.err; {
	case err == nil:
		if !b.write.Began.IsZero() { // else nothing was sent
			e.confirmed = b.write.Began
		}
		e.finish(b)
		for _, c := range b.commands {
			c.answer()
		}
		if b.write.Snapshot != nil {
			e.save(b.ctx, *b.write.Snapshot)
		}
		if !b.write.Empty {
			e.pause(e.turns.Stored(b.last)) // other owners write after the last write of a turn
		}
	case b.sealed && errors.Is(err, annals.ErrUnknown):
		// What these commands decided may be stored: they are not decided again. The commands of the next batch are.
		e.reload(nil)
		failAll(b.commands, err)
	case b.sealed && errors.Is(err, annals.ErrConflict):
		e.overtaken(b, err)
	case len(b.commands) > 1 && blamesOne(err):
		e.single = len(b.commands) // written one by one, only the command at fault fails
		e.reload(b.commands)
	default:
		if e.runtime.base.Err() != nil && errors.Is(err, annals.ErrUnavailable) {
			err = closedError("ask", e.pid)
		}
		e.reload(nil)
		failAll(b.commands, err)
	}
	e.runtime.freeBatch(b)
}

// finish updates the state by what the store says of the write of b, and makes the reply of the last command of b.
func (e *entity[C, S, R]) finish(b *batch[C, S, R]) {
	if b.finish == nil {
		return
	}
	c := b.commands[len(b.commands)-1]
	ctx, _ := e.runtime.writes.context()
	if c.result.Reply, c.err = b.finish.run(ctx, &b.write, b.finish.receipt); c.err != nil {
		c.result = behavior.Result[R]{}
		e.loaded = false
	}
}

// overtaken has the commands of b decided again, because another owner has written.
func (e *entity[C, S, R]) overtaken(b *batch[C, S, R], err error) {
	now := time.Now()
	b.commands = slices.DeleteFunc(b.commands, func(c *command[C, S, R]) bool {
		if c.overtaken.IsZero() {
			c.overtaken = now
		}
		give := now.Sub(c.overtaken) >= e.runtime.o.ConflictTimeout
		if give {
			c.fail(err)
		}
		return give
	})
	e.reload(b.commands)
	if !b.write.Empty { // else the commands need no more than the load
		e.pause(e.turns.Overtaken())
	}
}

// blamesOne reports whether err is about the content of the write: then a single command may have caused it.
func blamesOne(err error) bool {
	e := (*annals.Error)(nil)
	if !errors.As(err, &e) {
		return false
	}
	return slices.Contains([]error{annals.ErrInvalid, annals.ErrTooLarge, annals.ErrConstraint, annals.ErrPanic, nil}, e.Kind)
}

func failAll[C, S, R any](commands []*command[C, S, R], err error) {
	for _, c := range commands {
		c.fail(err)
	}
}
