package entity

import (
	"time"
)

// idleEntry is what the list of idle entities stores in an entity.
type idleEntry[C, S, R any] struct {
	listed     bool
	since      time.Time
	prev, next *entity[C, S, R]
}

// idleList is the list of the entities that have nothing to do, the longest idle first.
type idleList[C, S, R any] struct{ first, last *entity[C, S, R] }

func (l *idleList[C, S, R]) push(e *entity[C, S, R], since time.Time) {
	e.idle = idleEntry[C, S, R]{listed: true, since: since, prev: l.last}
	if l.last == nil {
		l.first = e
	} else {
		l.last.idle.next = e
	}
	l.last = e
}

func (l *idleList[C, S, R]) remove(e *entity[C, S, R]) {
	if e.idle.prev == nil {
		l.first = e.idle.next
	} else {
		e.idle.prev.idle.next = e.idle.next
	}
	if e.idle.next == nil {
		l.last = e.idle.prev
	} else {
		e.idle.next.idle.prev = e.idle.prev
	}
	e.idle = idleEntry[C, S, R]{}
}

// retire makes e idle, so that the caller does not work on it any more, if e has nothing to do; else it returns false. An entity that is not loaded is dropped
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
	e.working = false
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

// shrink frees what an idle entity does not need. The caller works on e, and e.mu is held.
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
	r.evicted++
}

// sweepLater sets the timer for the entity that has been idle longest. r.mu is held.
func (r *Runtime[C, S, R]) sweepLater() {
	if r.sweeping || r.idle.first == nil {
		return
	}
	r.sweeping = true
	wait := time.Until(r.idle.first.idle.since.Add(r.o.IdleAfter))
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
	for e := r.idle.first; e != nil && time.Since(e.idle.since) >= r.o.IdleAfter; e = r.idle.first {
		r.evict(e)
	}
	r.sweepLater()
}
