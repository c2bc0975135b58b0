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
func (g *engine[C, S, R]) retire(e *entity[C, S, R]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.mu.Lock()
	if e.upcoming() != nothing {
		e.mu.Unlock()
		return false
	}
	e.turn = false
	e.mu.Unlock()

	g.active--
	g.idle.push(e, time.Now())
	g.admit()
	g.sweepLater()
	g.checkDrained()
	return true
}

// evict passivates an idle entity: all that it knows is stored. g.mu is held.
func (g *engine[C, S, R]) evict(e *entity[C, S, R]) {
	g.idle.remove(e)
	delete(g.live, e.id)
}

// sweepLater sees to it that idle entities are passivated in time. g.mu is held.
func (g *engine[C, S, R]) sweepLater() {
	if g.sweeping || g.idle.first == nil {
		return
	}
	g.sweeping = true
	wait := time.Until(g.idle.first.rest.since.Add(g.o.IdleAfter))
	if g.sweeper == nil {
		g.sweeper = time.AfterFunc(wait, g.sweep)
	} else {
		g.sweeper.Reset(wait)
	}
}

// sweep passivates the entities that have been idle for long enough.
func (g *engine[C, S, R]) sweep() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sweeping = false
	if g.base.Err() != nil {
		return
	}
	for e := g.idle.first; e != nil && time.Since(e.rest.since) >= g.o.IdleAfter; e = g.idle.first {
		g.evict(e)
	}
	g.sweepLater()
}
