package entity

import "context"

// Evict drops the entity named id from memory: the next command to it loads it from the store. It waits until the commands that were sent
// to the entity before it are answered and no snapshot of the entity is being saved, then calls while, which may be nil, with ctx, and
// returns its error unchanged. Commands that arrive meanwhile wait, and are executed afterwards on what the store then holds. So while
// may change the entity in the store without regard to this Runtime, for example delete its events and forget it. It must not send
// commands to the entity: they wait for while. Other runtimes that have the entity in memory are not affected.
//
// When ctx ends before while was called, the entity stays in memory and the error is ErrUnavailable with ctx's error.
func (r *Runtime[C, S, R]) Evict(ctx context.Context, id string, while func(ctx context.Context) error) error {
	c := r.newCommand(ctx, evicting)
	if err := r.submit(id, c); err != nil {
		return err
	}
	e, err := c.held, c.err
	r.recycle(c)
	if err != nil {
		return err
	}
	defer e.release()
	if while == nil {
		return nil
	}
	return while(ctx)
}

// hold gives e to the caller of c, an Evict, until release. The caller of hold works on e and holds e.mu, and neither afterwards. When the caller
// of c has withdrawn it, hold only gives back e.mu and reports false.
func (e *entity[C, S, R]) hold(c *command[C, S, R]) bool {
	if e.runtime.base.Err() != nil {
		c.refuse(closedError(c.kind.op(), e.pid))
		e.mu.Unlock()
		return false
	}
	if !c.take() {
		e.mu.Unlock()
		return false
	}
	e.held, e.working = true, false
	e.mu.Unlock()
	c.held = e
	c.answer()
	return true
}

// release drops the state of e, which was held, and has e work for the commands that arrived meanwhile.
func (e *entity[C, S, R]) release() {
	e.mu.Lock()
	e.held, e.working = false, true
	e.mu.Unlock()
	if e.loaded {
		e.runtime.mu.Lock()
		e.runtime.evicted++
		e.runtime.mu.Unlock()
	}
	e.state, e.loaded = e.runtime.model.New(e.id, e.pid), false // the next command loads the entity
	if !e.runtime.retire(e) {
		e.begin()
	}
}
