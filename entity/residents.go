package entity

import (
	"github.com/annals-go/annals"
)

// waitingCommand is a command that waits because MaxEntities entities are in memory and all of them are busy.
type waitingCommand[C, S, R any] struct {
	id      string
	pid     annals.PersistenceID
	command *command[C, S, R]
}

// activate returns the entity named id, and makes it if it is not in memory. It returns nil when MaxEntities entities are in memory and
// all of them are busy. r.mu is held.
func (r *Runtime[C, S, R]) activate(id string, pid annals.PersistenceID) *entity[C, S, R] {
	if e := r.live[id]; e != nil {
		return e
	}
	if len(r.live) >= r.o.MaxEntities {
		if r.idle.first == nil {
			return nil
		}
		r.evict(r.idle.first)
	}
	e := &entity[C, S, R]{runtime: r, id: id, pid: pid, state: r.model.New(id, pid)}
	r.live[id] = e
	r.active++
	return e
}

// wake hands c to e and reports whether the caller must have e work. r.mu is held.
func (r *Runtime[C, S, R]) wake(e *entity[C, S, R], c *command[C, S, R]) bool {
	if e.idle.listed {
		r.idle.remove(e)
		r.active++
	}
	return e.push(c)
}

// admit hands over the commands in the queue whose entities can be in memory now. r.mu is held.
func (r *Runtime[C, S, R]) admit() {
	for front := r.queue.Front(); front != nil; front = r.queue.Front() {
		a := front.Value.(*waitingCommand[C, S, R])
		e := r.activate(a.id, a.pid)
		if e == nil {
			return
		}
		r.queue.Remove(front)
		a.command.place = nil
		if r.wake(e, a.command) {
			e.begin()
		}
	}
}

// abandon removes c, which has left, from the queue or from the mailbox of the entity named id.
func (r *Runtime[C, S, R]) abandon(id string, c *command[C, S, R]) {
	r.mu.Lock()
	e := r.live[id]
	if c.place != nil {
		r.queue.Remove(c.place)
		c.place, e = nil, nil
	}
	r.mu.Unlock()
	if e != nil {
		e.abandoned()
	}
}
