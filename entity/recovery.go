package entity

import (
	"context"
	"slices"
	"time"
)

// load reads the entity from the store for the commands that wait. When that fails, they fail with the same error; the next command
// tries again.
func (e *entity[C, S, R]) load() {
	commands := e.wanted()
	if len(commands) == 0 {
		return
	}
	r := e.runtime
	ctx, cancel := context.WithTimeout(r.base, r.o.RecoveryTimeout)
	defer cancel()
	began, known := time.Now(), e.state.SeqNr()
	err := r.model.Load(onBehalf(ctx, commands), e.pid, e.state)
	if err == nil {
		e.loaded, e.confirmed = true, began
		e.turns.Loaded(began, e.state.SeqNr() != known)
		return
	}
	if r.base.Err() != nil {
		err = closedError("ask", e.pid)
	}
	e.refuseAll(err)
}

// refuseAll fails the commands that wait, except those of Evict, which do not need the state.
func (e *entity[C, S, R]) refuseAll(err error) {
	e.mu.Lock()
	commands := e.mailbox.takeAll()
	for _, c := range commands {
		if c.kind == evicting {
			e.mailbox.push(c)
		}
	}
	e.mu.Unlock()
	for _, c := range commands {
		if c.kind != evicting {
			c.refuse(err)
		}
	}
}

// wanted drops the commands whose callers have given up and returns the others. A load that begins now confirms their answers.
func (e *entity[C, S, R]) wanted() []*command[C, S, R] {
	e.mu.Lock()
	defer e.mu.Unlock()
	commands := slices.DeleteFunc(e.mailbox.takeAll(), func(c *command[C, S, R]) bool {
		c.fresh = false
		return c.ctx.Err() != nil && c.leave()
	})
	e.mailbox.pushFront(commands...)
	return commands
}
