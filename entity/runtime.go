package entity

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/internal/host"
)

// Runtime keeps the entities of one behavior in memory and runs their commands: commands C, state S, replies R. It is safe
// for concurrent use.
type Runtime[C, S, R any] struct {
	own      transactions
	model    host.Observed[C, S, R]
	o        Options
	base     context.Context // of all calls to the store; ends with the runtime, not with a caller
	stop     context.CancelFunc
	writes   deadlines
	commands sync.Pool    // of *command
	batches  sync.Pool    // of *batch
	pending  atomic.Int64 // commands that were accepted, and neither answered nor withdrawn

	mu       sync.Mutex // locked before entity.mu where both are held
	live     map[string]*entity[C, S, R]
	idle     idleList[C, S, R]
	evicted  int64
	active   int       // live and not idle
	queue    list.List // of *waitingCommand: commands to entities that cannot be in memory yet; then no entity is idle
	sweeper  *time.Timer
	sweeping bool // sweeper is set
	closed   bool
	drained  chan struct{} // closed when all commands accepted before Shutdown are answered
}

// transactions is what stores of package driver have.
type transactions interface {
	Within(ctx context.Context) bool
}

// New starts a runtime for event-sourced entities. ErrInvalid reports all faults of b and o at once; ErrUnsupported means that the
// store lacks what b needs.
func New[C, E, S, R any](store annals.Store, b behavior.EventSourced[C, E, S, R], o Options) (*Runtime[C, S, R], error) {
	model, err := host.NewSourced(store, b, o.config())
	if err != nil {
		return nil, err
	}
	return newRuntime(store, model, o), nil
}

// NewState is New for durable-state entities. KeepSnapshots, DeleteEvents and Projections have no effect on them.
func NewState[C, S, R any](store annals.Store, b behavior.DurableState[C, S, R], o Options) (*Runtime[C, S, R], error) {
	model, err := host.NewDurable(store, b, o.config())
	if err != nil {
		return nil, err
	}
	return newRuntime(store, model, o), nil
}

func newRuntime[C, S, R any](store annals.Store, model host.Observed[C, S, R], o Options) *Runtime[C, S, R] {
	r := &Runtime[C, S, R]{model: model, o: o, live: map[string]*entity[C, S, R]{}, drained: make(chan struct{})}
	r.own, _ = ability.Of[transactions](store) // nil: a store that marks no contexts
	r.base, r.stop = context.WithCancel(context.Background())
	r.writes = deadlines{base: r.base, timeout: o.WriteTimeout}
	r.commands.New = func() any { return &command[C, S, R]{done: make(chan struct{}, 1)} }
	r.batches.New = func() any { return new(batch[C, S, R]) }
	return r
}

// Stats is what a Runtime has in memory.
type Stats struct {
	Entities int   // in memory
	Pending  int   // commands that wait for an answer, of all entities
	Evicted  int64 // entities that were dropped from memory since the Runtime was made: after IdleAfter, for others because of MaxEntities, or by Evict
}

// Stats returns what is in memory now. It takes no time, and may be called often.
func (r *Runtime[C, S, R]) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Stats{Entities: len(r.live), Pending: int(r.pending.Load()), Evicted: r.evicted}
}
