// Package aggregate runs entities that do not stay in memory: a Repository reads the entity, decides the command, and writes.
//
//	orders, err := aggregate.New(store, order, aggregate.Options{})
//	placed, err := orders.Do(ctx, "o-1", Place{Item: "pen"})
//
// When another process wrote first, the repository reads again and decides again. No entity is kept between calls, and any number of
// processes may serve the same entities. Commands to an entity that has met conflicts lately wait for each other, and processes that write to
// it without a pause take turns of 150 ms or longer. On the store that Transactor.InTx hands over, a command is part of the caller's own
// transaction: see docs/guide/transactions.md. AskOnce executes a command once though it is sent twice.
//
// Package entity runs the same behaviors and reads and writes the same records; both may be used on one entity.
package aggregate

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/contexts"
	"github.com/annals-go/annals/internal/host"
	"github.com/annals-go/annals/internal/panics"
)

// Options configure a Repository. The zero Options suit most programs.
type Options struct {
	WriteTimeout    time.Duration // of one write with all its tries, within the caller's context; 0: 10 s
	ConflictTimeout time.Duration // from the first conflict of a command with other owners until it is ErrConflict; 0: 30 s

	// AskOnce knows the key of a command for KeyAge after it was executed, by the clocks of the processes; 0: 24 h. KeepKeys is the most keys of an
	// entity within that time; beyond that, commands with keys are ErrOverloaded; 0: 500. Each command with a key writes all keys of its entity, about 60
	// bytes for each. Of an entity that gets no such command any more, the keys stay until it is forgotten.
	KeyAge   time.Duration
	KeepKeys int

	KeepSnapshots int  // the newest so many; 0: 1. Some stores keep only one: Capabilities.ManySnapshots
	DeleteEvents  bool // delete the events that the oldest kept snapshot covers, once it has been read back from the store; see SingleOwner

	// Projections are the names of projections in the store's OffsetStore: DeleteEvents deletes no event that one of them has
	// not handled. A projection that has never run, or was stopped, prevents the deletes of all entities.
	Projections []string

	// Metadata is added to what a command writes, its events or its state. The function encodes it from the context of the command; the
	// behavior's Metadata decodes it with the same codec. nil, and a zero Payload: none. An error refuses the command, as ErrInvalid
	// or, if it is that, ErrUnavailable.
	Metadata func(ctx context.Context) (annals.Payload, error)

	// SingleOwner declares that only this Repository writes to its entities, and that no two calls for one entity run at the same time. It
	// accepts a store for DeleteEvents that does not claim Capabilities.FenceAfterDelete: there, a second owner loses commands that were
	// answered.
	SingleOwner bool

	// MayDrop accepts a store that drops what it does not claim: the tags of the behavior (Capabilities.Tags), Metadata and the times that
	// EvolveStored gets (Times, Metadata, StateMetadata). Without it New and NewState refuse the store with ErrUnsupported.
	MayDrop bool

	// Observer is told once of each operation of the Repository: "ask" is a command, with the error that the caller gets; "load" reads an entity, "write" writes what a command decided, with
	// all tries, "snapshot" saves a snapshot and deletes what it makes superfluous. Call.Store is "aggregate". The operations of
	// stores have other names, so a store and its hosts can share an Observer. Result.Requests is 0: the store counts those. May be nil.
	Observer annals.Observer

	Logger *slog.Logger // for failed snapshots and stacks of panics; nil: slog.Default()
}

// config sets the defaults of o and returns what package host needs to know of o.
func (o *Options) config() host.Config {
	faults := errors.Join(
		host.Default("WriteTimeout", &o.WriteTimeout, 10*time.Second),
		host.Default("ConflictTimeout", &o.ConflictTimeout, 30*time.Second),
		host.Default("KeyAge", &o.KeyAge, 24*time.Hour),
		host.Default("KeepKeys", &o.KeepKeys, 500),
		host.Default("KeepSnapshots", &o.KeepSnapshots, 1))
	return host.Config{Host: "aggregate", Faults: faults, WriteTimeout: o.WriteTimeout, KeepSnapshots: o.KeepSnapshots, DeleteEvents: o.DeleteEvents,
		SingleOwner: o.SingleOwner, MayDrop: o.MayDrop, Projections: o.Projections, Metadata: o.Metadata,
		Observer: panics.Observer(o.Observer), Logger: panics.Logger(o.Logger)}
}

// Repository runs one behavior: commands C, state S, replies R. It is safe for concurrent use.
type Repository[C, S, R any] struct {
	model host.Observed[C, S, R]
	o     Options
	saves saves
	store annals.Store
	lines lines
}

// New is a repository of event-sourced entities. ErrInvalid reports all faults of b and o at once; ErrUnsupported means that the store
// lacks what b needs.
func New[C, E, S, R any](store annals.Store, b behavior.EventSourced[C, E, S, R], o Options) (*Repository[C, S, R], error) {
	model, err := host.NewSourced(store, b, o.config())
	if err != nil {
		return nil, err
	}
	return newRepository(store, model, o), nil
}

// NewState is New for durable-state entities. KeepSnapshots, DeleteEvents and Projections have no effect on them.
func NewState[C, S, R any](store annals.Store, b behavior.DurableState[C, S, R], o Options) (*Repository[C, S, R], error) {
	model, err := host.NewDurable(store, b, o.config())
	if err != nil {
		return nil, err
	}
	return newRepository(store, model, o), nil
}

func newRepository[C, S, R any](store annals.Store, model host.Observed[C, S, R], o Options) *Repository[C, S, R] {
	return &Repository[C, S, R]{store: store, model: model, o: o,
		saves: saves{done: map[annals.PersistenceID]chan struct{}{}}, lines: lines{of: map[annals.PersistenceID]*line{}}}
}

// Load is the entity's newest state and its number: that of its last event, or its revision; 0 when it was never written. The state is the
// caller's.
func (r *Repository[C, S, R]) Load(ctx context.Context, id string) (s S, number annals.SeqNr, err error) {
	pid, err := r.model.Identify("view", id)
	if err != nil {
		return s, 0, err
	}
	e := r.model.New(id, pid)
	if err := r.model.Load(ctx, pid, e); err != nil {
		return s, 0, err
	}
	err = e.View(func(now S, at annals.SeqNr) error { s, number = now, at; return nil })
	return s, number, err
}

// LoadAt returns the state of an event-sourced entity after its event n, and the number of the last event in it: n, or less if n is a number
// without an event. 0 is the state before the first event. It is computed from the newest snapshot at or before n, or from the first event; nothing is written.
// The state is the caller's.
//
// ErrTruncated when events are deleted that it needs and that no snapshot at or before n covers, as those of an entity that was deleted.
// Events that were deleted while the entity had no snapshot are left out, as by Load. ErrInvalid when n is negative or above the last number,
// ErrUnsupported for a durable state, which has no past.
func (r *Repository[C, S, R]) LoadAt(ctx context.Context, id string, n annals.SeqNr) (s S, number annals.SeqNr, err error) {
	return r.model.LoadAt(ctx, id, host.Past{Number: n})
}

// LoadAsOf is LoadAt for the time t: the state after the last event whose time is not after t, by the times of the store. Where the times of an
// entity go back, because a clock was set back or events were imported, the event after it is later than t. ErrUnsupported for a store that
// does not claim Capabilities.Times.
func (r *Repository[C, S, R]) LoadAsOf(ctx context.Context, id string, t time.Time) (s S, number annals.SeqNr, err error) {
	return r.model.LoadAt(ctx, id, host.Past{Time: t, Timed: true})
}

// Ask decides c on the newest state, stores what c decided and returns the reply, like Ask of an entity.Runtime. A rejection is the error
// of Decide, unchanged. ErrUnknown means that what c decided may have been stored; after any other *annals.Error nothing was.
func (r *Repository[C, S, R]) Ask(ctx context.Context, id string, c C) (R, error) {
	result, err := r.Do(ctx, id, c)
	return result.Reply, err
}

// Do is Ask with the entity's number after the command.
func (r *Repository[C, S, R]) Do(ctx context.Context, id string, c C) (behavior.Result[R], error) {
	return r.do(ctx, id, c, host.AnyNumber)
}

// DoAt is Do for an entity that must be exactly at number at, as in If-Match; 0 is an entity that was never written. Otherwise a c that
// would change the entity, or is rejected, does nothing, and the error is ErrConflict. A c that decides nothing gets its reply at any number:
// so the repetition of a command whose answer was lost, which Decide recognises by its key, is not refused because of its own success.
// ErrInvalid when at is negative.
func (r *Repository[C, S, R]) DoAt(ctx context.Context, id string, at annals.SeqNr, c C) (behavior.Result[R], error) {
	if err := r.model.CheckNumber(id, at); err != nil {
		return behavior.Result[R]{}, err
	}
	return r.do(ctx, id, c, at)
}

func (r *Repository[C, S, R]) do(ctx context.Context, id string, c C, at annals.SeqNr) (behavior.Result[R], error) {
	if r.o.Observer == nil {
		return r.ask(ctx, id, c, at)
	}
	return r.model.Ask(ctx, id, func(ctx context.Context) (behavior.Result[R], error) { return r.ask(ctx, id, c, at) })
}

func (r *Repository[C, S, R]) ask(ctx context.Context, id string, c C, at annals.SeqNr) (result behavior.Result[R], err error) {
	pid, err := r.model.Identify(host.OpAsk, id)
	if err != nil {
		return result, err
	}
	if at != host.AnyNumber || contexts.InTx(ctx, nil) {
		return r.alone(ctx, id, pid, c, at)
	}
	if l := r.lines.join(pid, false); l != nil {
		return r.queue(ctx, l, id, pid, c, nil)
	}
	result, overtaken, err := r.once(ctx, nil, id, pid, c, at, r.send)
	if !overtaken {
		return result, err
	}
	return r.queue(ctx, r.lines.join(pid, true), id, pid, c, err)
}

// alone executes c without a line: with a number given, because c has its answer as soon as the entity has been read again, and within a
// transaction, because the others in the line could wait for its end.
func (r *Repository[C, S, R]) alone(ctx context.Context, id string, pid annals.PersistenceID, c C, at annals.SeqNr) (behavior.Result[R], error) {
	began := time.Now()
	for try := 0; ; try++ {
		result, overtaken, err := r.once(ctx, nil, id, pid, c, at, r.send)
		if !overtaken || time.Since(began) >= r.o.ConflictTimeout || try > 0 && backoff.Wait(ctx, try-1) != nil {
			return result, err
		}
	}
}

// once runs c once. send writes what c decides. once reports whether another owner wrote between the load and the write. When l is not nil, c is at its front.
func (r *Repository[C, S, R]) once(ctx context.Context, l *line, id string, pid annals.PersistenceID, c C, at annals.SeqNr,
	send func(ctx context.Context, w *host.Write) (annals.Receipt, error)) (result behavior.Result[R], overtaken bool, err error) {
	began, e := time.Now(), r.model.New(id, pid)
	if err := r.model.Load(ctx, pid, e); err != nil {
		return result, false, err
	}
	l.loaded(began, e.SeqNr())
	d := e.Decide(ctx, c, at)
	if d.Err != nil {
		return result, false, d.Err
	}
	var w host.Write
	if err := e.Seal(&w, true); err != nil {
		return result, false, err
	}
	if !w.Empty {
		last := l.sent()
		receipt, err := send(ctx, &w)
		if overtaken = errors.Is(err, annals.ErrConflict); overtaken {
			l.overtaken()
		}
		if err != nil {
			return result, overtaken, err
		}
		l.stored(e.SeqNr(), last)
		if d.Finish != nil {
			if d.Reply, err = d.Finish(ctx, &w, receipt); err != nil {
				return result, false, err
			}
		}
	}
	if w.Snapshot != nil {
		r.save(ctx, *w.Snapshot)
	}
	return behavior.Result[R]{Reply: d.Reply, SeqNr: e.SeqNr()}, false, nil
}

func (r *Repository[C, S, R]) send(ctx context.Context, w *host.Write) (annals.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.WriteTimeout)
	defer cancel()
	return r.model.Write(ctx, w)
}
