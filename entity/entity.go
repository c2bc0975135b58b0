package entity

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/internal/host"
)

// entity is one entity in memory. It has no goroutine of its own. A goroutine that finds something to do for the entity, on which
// no other one works, works on it until nothing is left. While a write is in flight no goroutine needs to, so that the one that brings the
// next command can decide it.
type entity[C, S, R any] struct {
	runtime *Runtime[C, S, R]
	id      string
	pid     annals.PersistenceID

	idle idleEntry[C, S, R] // guarded by Runtime.mu

	mu      sync.Mutex
	mailbox mailbox[C, S, R]
	left    int  // how many commands have left since the mailbox was searched for them
	working bool // a goroutine works on the entity
	writing bool // current is in flight: one write at a time
	written bool // current has an outcome, which has not been handled
	saving  bool // a snapshot is being saved: one at a time
	held    bool // the caller of an Evict has the entity: no commands are decided
	pausing bool // other owners have their turn: no commands are decided

	// These belong to the goroutine that works on the entity, and are read under mu when there is none.
	state     host.Entity[C, S, R]
	loaded    bool
	current   *batch[C, S, R] // in flight, or with an outcome
	next      *batch[C, S, R] // being decided; nil: no commands
	turns     host.Turns
	single    int       // so many commands to come are written one by one
	confirmed time.Time // when the store was last asked for the state, and has answered
}

// confirmWithin is how long a state counts without an answer of the store. Another owner can delete the entity at any time. It is forgotten
// ability.ForgetAge later, and from then on its numbers can be those of a new entity.
const confirmWithin = ability.ForgetAge / 3

// push adds c to the mailbox and reports whether the caller must call work.
func (e *entity[C, S, R]) push(c *command[C, S, R]) (work bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mailbox.push(c)
	return e.startWork()
}

// abandoned notes that a command has left. When most of the mailbox may have left, it is searched for them.
func (e *entity[C, S, R]) abandoned() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left++; 2*e.left <= e.mailbox.len() {
		return
	}
	waited := e.waits()
	e.mailbox.drop((*command[C, S, R]).hasLeft)
	e.left = 0
	if waited && !e.waits() && !e.working { // otherwise e would not become idle: after the pause there is nothing to do
		e.working = true
		e.begin()
	}
}

// startWork reports whether there is something to do and no goroutine doing it; then the caller works on e. e.mu is held.
func (e *entity[C, S, R]) startWork() bool {
	if e.working || e.upcoming() == nothing {
		return false
	}
	e.working = true
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
	hold
)

// upcoming is what has to be done next. e.mu is held.
func (e *entity[C, S, R]) upcoming() task {
	front := e.mailbox.front()
	switch {
	case e.written:
		return settle
	case e.held:
		return nothing
	case front != nil && front.kind == evicting:
		if e.next.len() == 0 && !e.writing && !e.saving {
			return hold
		}
	case e.pausing:
		return nothing
	case front != nil && !e.loaded && !e.writing:
		return load
	case front != nil && e.loaded && !e.unfinished() && e.next.accepts(e.runtime.o.MaxBatch):
		return decide
	}
	if e.next.len() > 0 && !e.writing {
		return write
	}
	return nothing
}

// unfinished reports whether nothing can be decided before a write has an outcome: the state depends on it, or a pause follows.
// e.mu is held.
func (e *entity[C, S, R]) unfinished() bool {
	return e.next != nil && e.next.finish != nil || e.current != nil && (e.current.finish != nil || e.current.last)
}

// work works on e until nothing is left to do. Before it ends it yields once: a caller that sends its next
// command as soon as it has an answer then needs no new goroutine, whose start takes more time than most commands.
func (e *entity[C, S, R]) work() {
	at, c := nothing, (*command[C, S, R])(nil)
	defer func() {
		if at != nothing { // domain code has called runtime.Goexit: this goroutine ends
			go e.goOn(at, c)
		}
	}()
	for last := nothing; ; last = at {
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
		case hold:
			if e.hold(e.mailbox.pop()) {
				at = nothing
				return
			}
		case nothing:
			if e.writing || e.saving || e.held || e.waits() {
				e.working = false
				e.mu.Unlock()
				return
			}
			e.mu.Unlock()
			if last != nothing {
				runtime.Gosched() // the callers that were just answered run first, and this goroutine does what they send next
			} else if e.runtime.retire(e) {
				return
			}
		}
	}
}

// goOn does what is left of the task at which the goroutine before ended, then works on. c is the command then being decided.
func (e *entity[C, S, R]) goOn(at task, c *command[C, S, R]) {
	switch at {
	case decide: // the state may be half changed, as by a panic in Evolve
		e.broken(c, host.Exited(c.kind.op(), e.pid))
	case load:
		e.refuseAll(host.Exited("recover", e.pid))
	case write:
		e.current.err = host.Exited("encode", e.pid)
		e.settle()
	case send: // only a store can have done that, and it is not known what it wrote
		w := &e.current.write
		e.current.err = &annals.Error{Op: w.Op(), ID: w.ID(), After: w.After(), Kind: annals.ErrUnknown, Err: host.Exited(w.Op(), w.ID())}
		if !e.sent() {
			return
		}
	}
	e.work()
}

// broken fails c, which has left the state unsound. The commands that were decided before it and not sent are decided again
// without it.
func (e *entity[C, S, R]) broken(c *command[C, S, R], err error) {
	e.reload(nil)
	c.fail(err)
}

// decide runs c on the newest decided state.
func (e *entity[C, S, R]) decide(c *command[C, S, R]) {
	if e.runtime.base.Err() != nil {
		c.refuse(closedError(c.kind.op(), e.pid))
		return
	}
	if !c.take() {
		return
	}
	if c.fresh && e.current == nil && e.next.len() == 0 && time.Since(e.confirmed) > confirmWithin {
		e.loaded = false
		e.requeue(c)
		return
	}
	if e.next == nil {
		e.next = e.runtime.batches.Get().(*batch[C, S, R])
	}
	d := e.run(c)
	if d.Full {
		e.next.full = true
		e.requeue(c)
		return
	}
	if e.single > 0 {
		e.single--
		e.next.full = true
	}
	if c.err = d.Err; d.Err == nil {
		c.result = behavior.Result[R]{Reply: d.Reply, SeqNr: e.state.SeqNr()}
	}
	switch {
	case d.Broken:
		e.broken(c, d.Err)
	case !e.ahead() && !d.Wrote && !c.fresh:
		c.answer()
	default:
		e.next.add(c, d.Wrote)
		if c.kind == doing && !e.state.Final() {
			e.next.full = true
		}
		if d.Finish != nil {
			e.next.finish = &finish[R]{run: d.Finish}
		}
	}
}

// run executes c.
func (e *entity[C, S, R]) run(c *command[C, S, R]) (d host.Decision[R]) {
	final := e.state.Final()
	switch {
	case c.kind == viewing && !final:
		e.next.views = true // later commands may change the state of the same number: see batch.show
	case c.kind == viewing:
		d.Err = e.state.View(c.view)
	case c.at != host.AnyNumber && !final:
		d.Full = true
	default:
		return e.state.Decide(c.ctx, c.value, c.at)
	}
	return d
}

// ahead reports whether the decided state is ahead of the stored one: then no command may be answered before it is stored,
// not even one that only reads or is rejected.
func (e *entity[C, S, R]) ahead() bool { return e.current != nil || e.next.writers > 0 }

// reload has the state read from the store again. commands, and those of the next batch, were decided on the old state and are
// decided again.
func (e *entity[C, S, R]) reload(commands []*command[C, S, R]) {
	e.loaded = false
	if e.next != nil {
		commands = slices.Concat(commands, e.next.commands)
		e.next.reset()
	}
	e.requeue(commands...)
}

// requeue puts decided commands back before all others.
func (e *entity[C, S, R]) requeue(commands ...*command[C, S, R]) {
	for _, c := range commands {
		c.wait()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mailbox.pushFront(commands...)
}
