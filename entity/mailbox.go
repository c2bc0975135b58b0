package entity

import (
	"container/list"
	"context"
	"slices"
	"sync/atomic"

	"github.com/annals-go/annals"
)

// command is one call of Ask on its way through the runtime.
type command[C, R any] struct {
	ctx   context.Context
	value C
	fresh bool          // the reply must not miss what others wrote before the call
	tries int           // writes with it that met a conflict
	place *list.Element // in Runtime.crowd, guarded by Runtime.mu; nil: not there

	stage atomic.Int32
	reply R
	err   error
	done  chan struct{} // holds one element once reply and err are final; the runtime does not touch the command afterwards
}

// The stages of a command. Its caller may take it back while it waits, and only then.
const (
	waiting int32 = iota
	taken
	left
)

// take claims c for being decided. It reports false when c's caller has given up or is about to: its context has ended.
func (c *command[C, R]) take() bool {
	if c.ctx.Err() != nil {
		c.stage.CompareAndSwap(waiting, left)
		return false
	}
	return c.stage.CompareAndSwap(waiting, taken)
}

// leave takes c back for its caller. It reports false when c may have been decided.
func (c *command[C, R]) leave() bool {
	return c.stage.CompareAndSwap(waiting, left) || c.stage.Load() == left
}

// wait makes c undecided again.
func (c *command[C, R]) wait() {
	var zero R
	c.reply, c.err = zero, nil
	c.stage.Store(waiting)
}

// answer sends the reply and the error to the caller.
func (c *command[C, R]) answer() { c.done <- struct{}{} }

func (c *command[C, R]) fail(err error) {
	var zero R
	c.reply, c.err = zero, err
	c.answer()
}

// refuse fails c unless its caller has given up.
func (c *command[C, R]) refuse(err error) {
	if c.take() {
		c.fail(err)
	}
}

func notDecided(id annals.PersistenceID, err error) error {
	return &annals.Error{Op: "ask", ID: id, Kind: annals.ErrUnavailable, Err: err}
}

// mailbox is the commands of one entity that wait to be decided, in order. It has room for a few times as many as wait.
type mailbox[C, R any] struct {
	commands []*command[C, R]
	head     int
}

func (m *mailbox[C, R]) len() int { return len(m.commands) - m.head }

// push takes the room of those popped before it takes more: where commands come as fast as they go there is never a moment
// without any.
func (m *mailbox[C, R]) push(c *command[C, R]) {
	if len(m.commands) == cap(m.commands) && m.head > len(m.commands)/2 {
		m.move(m.commands)
	}
	m.commands = append(m.commands, c)
}

func (m *mailbox[C, R]) pop() *command[C, R] {
	c := m.commands[m.head]
	m.commands[m.head] = nil
	m.head++
	switch n := m.len(); {
	case cap(m.commands) > keptCapacity && n < cap(m.commands)/8: // what many have left behind
		m.move(make([]*command[C, R], max(2*n, keptCapacity)))
	case n == 0:
		m.commands, m.head = m.commands[:0], 0
	}
	return c
}

// move has the commands at the beginning of to.
func (m *mailbox[C, R]) move(to []*command[C, R]) {
	n := copy(to, m.commands[m.head:])
	clear(to[n:])
	m.commands, m.head = to[:n], 0
}

// pushFront puts commands back before all others.
func (m *mailbox[C, R]) pushFront(commands ...*command[C, R]) {
	m.commands, m.head = slices.Concat(commands, m.commands[m.head:]), 0
}

// takeAll empties m.
func (m *mailbox[C, R]) takeAll() []*command[C, R] {
	all := m.commands[m.head:]
	*m = mailbox[C, R]{}
	return all
}
