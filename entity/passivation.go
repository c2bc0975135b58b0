package entity

import (
	"time"
)

// idler is an entity's place among those that have nothing to do.
type idler[C, S, R any] struct {
	idle       bool
	since      time.Time
	prev, next *entity[C, S, R]
}

// idlers are the entities that have nothing to do, the longest idle first.
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

// retire gives the turn of e back when e has nothing to do.
func (r *Runtime[C, S, R]) retire(e *entity[C, S, R]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.mu.Lock()
	if e.upcoming() != nothing {
		e.mu.Unlock()
		return false
	}
	if e.next != nil { // an idle entity needs little memory
		r.freeBatch(e.next)
		e.next = nil
	}
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

// evict passivates an idle entity: all that it knows is stored. r.mu is held.
func (r *Runtime[C, S, R]) evict(e *entity[C, S, R]) {
	r.idle.remove(e)
	delete(r.live, e.id)
}

// sweepLater sees to it that idle entities are passivated in time. r.mu is held.
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

// sweep passivates the entities that have been idle for long enough.
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
