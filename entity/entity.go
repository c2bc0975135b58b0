package entity

import (
	"slices"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/host"
)

// entity is one entity in memory. No goroutine belongs to it: whoever finds something to do takes the turn, and gives it
// back when nothing is left or, while a write is in flight, to whoever brings the next command.
type entity[C, S, R any] struct {
	runtime *Runtime[C, S, R]
	id      string
	pid     annals.PersistenceID

	rest idler[C, S, R] // guarded by Runtime.mu

	mu      sync.Mutex
	mailbox mailbox[C, R]
	turn    bool // somebody works on the entity
	writing bool // current is in flight: one write at a time
	written bool // the outcome of current waits for the turn
	saving  bool // a snapshot is being saved: one at a time

	// These belong to the turn, and are read under mu when nobody has it.
	state     host.Entity[C, S, R]
	loaded    bool
	current   *batch[C, R] // in flight, or with an outcome
	next      *batch[C, R] // being decided
	conflicts int          // in a row
	single    int          // so many commands to come are written one by one
}

// push hands c over and reports whether the caller must call work.
func (e *entity[C, S, R]) push(c *command[C, R]) (work bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mailbox.push(c)
	return e.takeTurn()
}

// takeTurn reports whether there is something to do and nobody doing it; then the turn is the caller's. e.mu is held.
func (e *entity[C, S, R]) takeTurn() bool {
	if e.turn || e.upcoming() == nothing {
		return false
	}
	e.turn = true
	return true
}

type task int

const (
	nothing task = iota
	settle
	load
	decide
	write
	send
)

// upcoming is what has to be done next. e.mu is held.
func (e *entity[C, S, R]) upcoming() task {
	switch {
	case e.written:
		return settle
	case e.mailbox.len() > 0 && !e.loaded && !e.writing:
		return load
	case e.mailbox.len() > 0 && e.loaded && e.next.room(e.runtime.o.MaxBatch):
		return decide
	case len(e.next.commands) > 0 && !e.writing:
		return write
	}
	return nothing
}

// work has the turn and works until nothing is left to do.
func (e *entity[C, S, R]) work() {
	at, c := nothing, (*command[C, R])(nil)
	defer func() {
		if at != nothing { // domain code has called runtime.Goexit: this goroutine ends
			go e.goOn(at, c)
		}
	}()
	for {
		e.mu.Lock()
		switch at = e.upcoming(); at {
		case settle:
			e.written = false
			e.mu.Unlock()
			e.settle()
		case load:
			e.mu.Unlock()
			e.load()
		case decide:
			c = e.mailbox.pop()
			e.mu.Unlock()
			e.decide(c)
		case write:
			snapshot := !e.saving
			e.mu.Unlock()
			if !e.seal(snapshot) {
				continue
			}
			at = send
			if !e.send() {
				at = nothing
				return
			}
		case nothing:
			if e.writing || e.saving {
				e.turn = false
				e.mu.Unlock()
				return
			}
			e.mu.Unlock()
			if e.runtime.retire(e) {
				return
			}
		}
	}
}

// goOn does what is left of the task at which the goroutine before ended, then works on. c is the command then being decided.
func (e *entity[C, S, R]) goOn(at task, c *command[C, R]) {
	switch at {
	case decide: // the state may be half changed, as by a panic in Evolve
		e.broken(c, host.Exited("decide", e.pid))
	case load:
		e.refuseAll(host.Exited("recover", e.pid))
	case write:
		e.current.err = host.Exited("encode", e.pid)
		e.settle()
	case send: // only a store can have done that, and what it wrote nobody knows
		w := &e.current.write
		e.current.err = &annals.Error{Op: w.Op(), ID: w.ID(), After: w.After(), Kind: annals.ErrUnknown, Err: host.Exited(w.Op(), w.ID())}
		if !e.sent() {
			return
		}
	}
	e.work()
}

// broken fails c, which has left the state unsound. The neighbours that were decided with it have not been sent: they are
// decided again without it.
func (e *entity[C, S, R]) broken(c *command[C, R], err error) {
	e.reload(e.next.commands)
	e.next.reset()
	c.fail(err)
}

// decide runs c against the newest decided state.
func (e *entity[C, S, R]) decide(c *command[C, R]) {
	if e.runtime.base.Err() != nil {
		c.refuse(e.runtime.closedError(e.pid))
		return
	}
	if !c.take() {
		return
	}
	d := e.state.Decide(c.ctx, c.value)
	if d.Full {
		e.next.full = true
		e.requeue([]*command[C, R]{c})
		return
	}
	if e.single > 0 {
		e.single--
		e.next.full = true
	}
	c.reply, c.err = d.Reply, d.Err
	switch {
	case d.Broken:
		e.broken(c, d.Err)
	case !e.ahead() && !d.Wrote && !c.fresh:
		c.answer()
	default:
		e.next.add(c, d.Wrote)
	}
}

// ahead reports whether the decided state is ahead of the stored one: then no command may answer before it is stored,
// not even one that only reads or is rejected.
func (e *entity[C, S, R]) ahead() bool { return e.current != nil || e.next.writers > 0 }

// reload has the state read from the store again, and the commands decided on the old one once more.
func (e *entity[C, S, R]) reload(decided ...[]*command[C, R]) {
	e.loaded = false
	e.requeue(decided...)
}

// requeue puts decided commands back before all others.
func (e *entity[C, S, R]) requeue(decided ...[]*command[C, R]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, commands := range slices.Backward(decided) {
		for _, c := range commands {
			c.wait()
		}
		e.mailbox.pushFront(commands...)
	}
}
