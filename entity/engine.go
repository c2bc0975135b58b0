package entity

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/host"
)

// engine runs the entities of one model: which are in memory, which of them are idle, and who waits for room.
type engine[C, S, R any] struct {
	store    annals.Store
	model    host.Model[C, S, R]
	limits   annals.Limits
	o        Options
	base     context.Context // of all calls to the store; ends with the runtime, and not with a caller
	stop     context.CancelFunc
	writes   deadlines
	commands sync.Pool // of *command
	batches  sync.Pool // of *batch

	mu       sync.Mutex // before entity.mu, where both are held
	live     map[string]*entity[C, S, R]
	idle     idlers[C, S, R]
	active   int       // live and not idle
	crowd    list.List // of *arrival: commands for which there is no room; then no entity is idle
	sweeper  *time.Timer
	sweeping bool // sweeper is set
	closed   bool
	drained  chan struct{} // closed when all commands accepted before Shutdown are answered
}

// arrival is a command to an entity for which there is no room in memory.
type arrival[C, R any] struct {
	id      string
	pid     annals.PersistenceID
	command *command[C, R]
}

func newEngine[C, S, R any](store annals.Store, model host.Model[C, S, R], o Options) *engine[C, S, R] {
	g := &engine[C, S, R]{store: store, model: model, limits: store.Capabilities().Limits, o: o,
		live: map[string]*entity[C, S, R]{}, drained: make(chan struct{})}
	g.base, g.stop = context.WithCancel(context.Background())
	g.writes = deadlines{base: g.base, timeout: o.WriteTimeout}
	g.commands.New = func() any { return &command[C, R]{done: make(chan struct{}, 1)} }
	g.batches.New = func() any { return new(batch[C, R]) }
	return g
}

func (g *engine[C, S, R]) newBatch() *batch[C, R] { return g.batches.Get().(*batch[C, R]) }

// errInTx refuses a command that could wait for a transaction, which waits for the command's answer.
var errInTx = errors.New("the context is that of a transaction of the runtime's own store")

func (g *engine[C, S, R]) ask(ctx context.Context, id string, value C, fresh bool) (reply R, err error) {
	if err := ctx.Err(); err != nil {
		pid, _ := host.Identify(g.model, "ask", id, g.limits)
		return reply, notDecided(pid, err)
	}
	if annals.ContextInTx(ctx, g.store) {
		pid, _ := host.Identify(g.model, "ask", id, g.limits)
		return reply, &annals.Error{Op: "ask", ID: pid, Kind: annals.ErrInvalid, Err: errInTx}
	}
	c := g.commands.Get().(*command[C, R])
	c.ctx, c.value, c.fresh = ctx, value, fresh || !g.o.SingleOwner
	if err := g.deliver(id, c); err != nil {
		return reply, err
	}
	select {
	case <-c.done:
		return g.finish(c)
	case <-ctx.Done():
	}
	if c.leave() {
		g.abandon(c)
		return reply, notDecided(g.model.ID(id), ctx.Err())
	}
	select {
	case <-c.done:
		return g.finish(c)
	default: // decided, and perhaps being written: nobody listens to the answer any more
		return reply, &annals.Error{Op: "ask", ID: g.model.ID(id), Kind: annals.ErrUnknown, Err: ctx.Err()}
	}
}

// finish takes the answer out of c, which nobody else holds any more.
func (g *engine[C, S, R]) finish(c *command[C, R]) (R, error) {
	reply, err := c.reply, c.err
	done := c.done
	*c = command[C, R]{done: done}
	g.commands.Put(c)
	return reply, err
}

// deliver hands c to its entity, or has it wait for room.
func (g *engine[C, S, R]) deliver(id string, c *command[C, R]) error {
	g.mu.Lock()
	e := g.live[id]
	if e == nil {
		g.mu.Unlock()
		pid, err := host.Identify(g.model, "ask", id, g.limits)
		if err != nil {
			return err
		}
		g.mu.Lock()
		if g.closed {
			g.mu.Unlock()
			return g.closedError(pid)
		}
		if e = g.activate(id, pid); e == nil {
			c.place = g.crowd.PushBack(&arrival[C, R]{id, pid, c})
			g.mu.Unlock()
			return nil
		}
	}
	if g.closed {
		g.mu.Unlock()
		return g.closedError(e.pid)
	}
	work := g.wake(e, c)
	g.mu.Unlock()
	if work {
		go e.work()
	}
	return nil
}

// activate is the live entity named id, which it makes if there is room. It is nil when all entities that may be in
// memory are busy. g.mu is held.
func (g *engine[C, S, R]) activate(id string, pid annals.PersistenceID) *entity[C, S, R] {
	if e := g.live[id]; e != nil {
		return e
	}
	if len(g.live) >= g.o.MaxEntities {
		if g.idle.first == nil {
			return nil
		}
		g.evict(g.idle.first)
	}
	e := &entity[C, S, R]{engine: g, id: id, pid: pid, state: g.model.New(id, pid), next: g.newBatch()}
	g.live[id] = e
	g.active++
	return e
}

// wake hands c to e and reports whether the caller must have e work. g.mu is held.
func (g *engine[C, S, R]) wake(e *entity[C, S, R], c *command[C, R]) bool {
	if e.rest.idle {
		g.idle.remove(e)
		g.active++
	}
	return e.push(c)
}

// admit lets commands in for which there is room now. g.mu is held.
func (g *engine[C, S, R]) admit() {
	for front := g.crowd.Front(); front != nil; front = g.crowd.Front() {
		a := front.Value.(*arrival[C, R])
		e := g.activate(a.id, a.pid)
		if e == nil {
			return
		}
		g.crowd.Remove(front)
		a.command.place = nil
		if g.wake(e, a.command) {
			go e.work()
		}
	}
}

// abandon takes c out of the crowd, if it is there.
func (g *engine[C, S, R]) abandon(c *command[C, R]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.place != nil {
		g.crowd.Remove(c.place)
		c.place = nil
	}
}

func (g *engine[C, S, R]) len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.live)
}

func (g *engine[C, S, R]) closedError(pid annals.PersistenceID) error {
	return &annals.Error{Op: "ask", ID: pid, Kind: annals.ErrClosed}
}

// observe tells the Observer, if there is one, about a call to the store.
func (g *engine[C, S, R]) observe(ctx context.Context, op string, pid annals.PersistenceID, events int, fn func(ctx context.Context) error) error {
	o := g.o.Observer
	if o == nil {
		return fn(ctx)
	}
	call := annals.Call{Op: op, Store: "entity", ID: pid, Events: events}
	start := time.Now()
	ctx = o.Start(ctx, call)
	err := fn(ctx)
	o.End(ctx, call, annals.Result{Duration: time.Since(start), Events: events, Err: err})
	return err
}
