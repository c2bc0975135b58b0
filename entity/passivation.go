package entity

import (
	"time"
)

// idler is what the list of idle entities stores in an entity.
type idler[C, S, R any] struct {
	idle       bool
	since      time.Time
	prev, next *entity[C, S, R]
}

// idlers is the list of the entities that have nothing to do, the longest idle first.
type idlers[C, S, R any] struct{ first, last *entity[C, S, R] }

func (l *idlers[C, S, R]) push(e *entity[C, S, R], since time.Time) {
	e.rest = idler[C, S, R]{idle: true, since: since, prev: l.last}
	if l.last == nil {
		l.first = e
	} else {
		l.last.rest.next = e
	}
	l.last = e
}

func (l *idlers[C, S, R]) remove(e *entity[C, S, R]) {
	if e.rest.prev == nil {
		l.first = e.rest.next
	} else {
		e.rest.prev.rest.next = e.rest.next
	}
	if e.rest.next == nil {
		l.last = e.rest.prev
	} else {
		e.rest.next.rest.prev = e.rest.prev
	}
	e.rest = idler[C, S, R]{}
}

// retire makes e idle and gives its turn back, if e has nothing to do; else it returns false. An entity that is not loaded is dropped
// from memory.
func (r *Runtime[C, S, R]) retire(e *entity[C, S, R]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.mu.Lock()
	if e.upcoming() != nothing || e.waits() {
		e.mu.Unlock()
		return false
	}
	e.shrink()
	e.turn = false
	e.mu.Unlock()

	r.active--
	if e.loaded {
		r.idle.push(e, time.Now())
	} else {
		delete(r.live, e.id)
	}
	r.admit()
	r.sweepLater()
	r.checkDrained()
	return true
}

// shrink frees what an idle entity does not need. The turn and e.mu are held.
func (e *entity[C, S, R]) shrink() {
	if e.next != nil {
		e.runtime.freeBatch(e.next)
		e.next = nil
	}
	e.mailbox.shrink()
	e.state.Rest()
}

// evict drops an idle entity from memory: everything it has is stored. r.mu is held.
func (r *Runtime[C, S, R]) evict(e *entity[C, S, R]) {
	r.idle.remove(e)
	delete(r.live, e.id)
}

// sweepLater sets the timer for the entity that has been idle longest. r.mu is held.
func (r *Runtime[C, S, R]) sweepLater() {
	if r.sweeping || r.idle.first == nil {
		return
	}
	r.sweeping = true
	wait := time.Until(r.idle.first.rest.since.Add(r.o.IdleAfter))
	if r.sweeper == nil {
		r.sweeper = time.AfterFunc(wait, r.sweep)
	} else {
		r.sweeper.Reset(wait)
	}
}

// sweep drops the entities from memory that have been idle for IdleAfter.
func (r *Runtime[C, S, R]) sweep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweeping = false
	if r.base.Err() != nil {
		return
	}
	for e := r.idle.first; e != nil && time.Since(e.rest.since) >= r.o.IdleAfter; e = r.idle.first {
		r.evict(e)
	}
	r.sweepLater()
}
