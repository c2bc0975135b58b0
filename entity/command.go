package entity

import (
	"container/list"
	"context"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/internal/host"
)

// command is one call of a method of the Runtime that concerns one entity. Commands are reused, so that a call allocates none.
type command[C, S, R any] struct {
	kind  kind
	ctx   context.Context // of the call
	value C
	at    annals.SeqNr                         // the number that a DoAt demands, else host.AnyNumber
	view  func(s S, number annals.SeqNr) error // of a View
	fresh bool                                 // an answer that wrote nothing must be confirmed by the store
	place *list.Element                        // in Runtime.queue, guarded by Runtime.mu; nil: not there

	overtaken time.Time // when a write with it first met a conflict

	stage   atomic.Int32
	result  behavior.Result[R]
	held    *entity[C, S, R] // of an Evict: the entity, which the caller has to release
	err     error
	pending *atomic.Int64 // of the Runtime, which counts the commands that wait
	done    chan struct{} // holds one element once result, held and err are final; the runtime does not touch the command afterwards
}

// kind is the method that was called.
type kind int8

const (
	asking   kind = iota // Ask
	doing                // Do and DoAt: the number of the answer must be exact
	viewing              // View
	evicting             // Evict
)

// op is the operation as in annals.Error.
func (k kind) op() string { return [...]string{host.OpAsk, host.OpAsk, "view", "evict"}[k] }

// The stages of a command. Its caller can withdraw it while it waits, and only then.
const (
	waiting int32 = iota
	taken
	left
)

// take claims c for being decided. It reports false when c's caller has withdrawn it or is about to: its context has ended.
// Then nobody has c but its caller.
func (c *command[C, S, R]) take() bool {
	if c.ctx.Err() == nil && c.stage.CompareAndSwap(waiting, taken) {
		return true
	}
	c.leave()
	return false
}

// leave withdraws c for its caller. It reports false when c may have been decided.
func (c *command[C, S, R]) leave() bool {
	if c.stage.CompareAndSwap(waiting, left) {
		c.pending.Add(-1)
	}
	return c.hasLeft()
}

func (c *command[C, S, R]) hasLeft() bool { return c.stage.Load() == left }

// wait makes c undecided again.
func (c *command[C, S, R]) wait() {
	c.result, c.err = behavior.Result[R]{}, nil
	c.stage.Store(waiting)
}

// answer sends the result and the error to the caller.
func (c *command[C, S, R]) answer() {
	c.pending.Add(-1)
	c.done <- struct{}{}
}

func (c *command[C, S, R]) fail(err error) {
	c.result, c.err = behavior.Result[R]{}, err
	c.answer()
}

// refuse fails c unless its caller has withdrawn it.
func (c *command[C, S, R]) refuse(err error) {
	if c.take() {
		c.fail(err)
	}
}
