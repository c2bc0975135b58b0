package entity

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/internal/host"
)

// Runtime runs the entities of one behavior: commands C, replies R. It is safe for concurrent use.
type Runtime[C, R any] struct{ engine runner[C, R] }

// runner hides the type of the state, which is nobody's business outside the behavior.
type runner[C, R any] interface {
	ask(ctx context.Context, id string, c C, fresh bool) (R, error)
	shutdown(ctx context.Context) error
	len() int
}

// New starts a runtime for event-sourced entities. All faults of b and o are reported at once, as ErrInvalid; a store that
// lacks what b needs is ErrUnsupported.
func New[C, E, S, R any](store annals.Store, b behavior.EventSourced[C, E, S, R], o Options) (*Runtime[C, R], error) {
	wiring := host.Wiring{Op: "entity.New", Store: store}
	wiring.Fault(b.Validate())
	wiring.Fault(o.faults())
	wiring.NeedsEvents(b.SnapshotEvery, o.DeleteEvents, o.Projections)
	if err := wiring.Err(); err != nil {
		return nil, err
	}
	o.setDefaults()
	return &Runtime[C, R]{newEngine(store, host.NewSourced(store, b, o.config()), o)}, nil
}

// NewState is New for durable-state entities. KeepSnapshots, DeleteEvents and Projections mean nothing to them; Metadata is
// ErrInvalid, for a state keeps none.
func NewState[C, S, R any](store annals.Store, b behavior.DurableState[C, S, R], o Options) (*Runtime[C, R], error) {
	wiring := host.Wiring{Op: "entity.NewState", Store: store}
	wiring.Fault(b.Validate())
	wiring.Fault(o.faults())
	wiring.NeedsStates(o.Metadata)
	if err := wiring.Err(); err != nil {
		return nil, err
	}
	o.setDefaults()
	return &Runtime[C, R]{newEngine(store, host.NewDurable(store, b, o.config()), o)}, nil
}

// Ask sends c to the entity named id, activating it on first use, and returns its reply once everything that c decided,
// and everything it was decided on, is stored. A rejection is Decide's own error, unchanged.
//
// An answer that wrote nothing, such as a rejection, is given once the store has confirmed that no other owner had written to
// the entity when Ask was called. That takes one look at the store for all commands that are answered together, and none when
// one of them writes or the entity has just been loaded. Options.SingleOwner does without.
//
// When ctx ends before c was decided, c does nothing and the error is ErrUnavailable with ctx's error. When it ends later
// the outcome is not known to the caller: ErrUnknown with ctx's error. Either way c runs at most once, and its reply goes
// nowhere else.
func (r *Runtime[C, R]) Ask(ctx context.Context, id string, c C) (R, error) {
	return r.engine.ask(ctx, id, c, false)
}

// Fresh is Ask without what Options.SingleOwner allows: an answer that wrote nothing is confirmed by the store.
func (r *Runtime[C, R]) Fresh(ctx context.Context, id string, c C) (R, error) {
	return r.engine.ask(ctx, id, c, true)
}

// Ref is the entity named id. Nothing is activated yet.
func (r *Runtime[C, R]) Ref(id string) Ref[C, R] { return Ref[C, R]{r, id} }

// Len is how many entities are in memory.
func (r *Runtime[C, R]) Len() int { return r.engine.len() }

// Shutdown refuses new commands with ErrClosed and returns when those accepted are answered. When ctx ends first it
// cancels what is in flight, which its callers see as ErrUnknown, answers the rest with ErrClosed and returns an error
// with ctx's. It may be called more than once. The store stays open.
func (r *Runtime[C, R]) Shutdown(ctx context.Context) error { return r.engine.shutdown(ctx) }

// Ref is an entity to talk to. It is a plain value: copying it is cheap, and it keeps nothing in memory.
type Ref[C, R any] struct {
	runtime *Runtime[C, R]
	id      string
}

// ID is the id that the Ref was made with.
func (r Ref[C, R]) ID() string { return r.id }

// Ask is Runtime.Ask.
func (r Ref[C, R]) Ask(ctx context.Context, c C) (R, error) { return r.runtime.Ask(ctx, r.id, c) }

// Fresh is Runtime.Fresh.
func (r Ref[C, R]) Fresh(ctx context.Context, c C) (R, error) { return r.runtime.Fresh(ctx, r.id, c) }
