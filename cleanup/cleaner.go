package cleanup

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/progress"
)

// Options of a Cleaner; the zero Options work.
type Options struct {
	Concurrency int  // entities at the same time; 0: 4
	PerSecond   int  // so many entities are begun in a second at most; 0: no bound
	DryRun      bool // count what would be done, write nothing
	MaxFailures int  // so many failed entities end a run; 0: 100

	KeepSnapshots int           // of DeleteBeforeSnapshot: the newest; 0: 1
	Age           time.Duration // what was deleted later is not forgotten yet; 0: annals.ForgetAge
	AtOnce        bool          // forget whatever the age: only where nobody can write any more

	// Projections are the names of projections in the store's OffsetStore. No event is deleted that one of them has not
	// handled: the entity fails with annals.ErrUnavailable instead.
	Projections []string

	// Readable says what is wrong with a snapshot, as the Decode of its codec does. DeleteBeforeSnapshot deletes nothing that is
	// covered by one it fails for: the entity fails with annals.ErrCorrupt. nil: snapshots are not checked.
	Readable func(annals.Snapshot) error

	// Progress is called for each entity, in the order of the ids and one call at a time, with the report so far.
	Progress func(Result, Report)
}

// Cleaner deletes from one store. It may be used from many goroutines at once.
//
// The methods take ids as annals.Query.IDs yields them; IDs makes such a sequence of a list. Each entity is dealt with
// for itself, none is tried twice, and every step can be repeated: after a failure run again. The error of a run is an
// *Error.
type Cleaner struct {
	store     annals.Store
	forgetter annals.Forgetter // nil: the store cannot
	caps      annals.Capabilities
	o         Options
}

// New reports all faults of o at once, as annals.ErrInvalid.
func New(store annals.Store, o Options) (*Cleaner, error) {
	faults := []error{
		negative("Concurrency", o.Concurrency), negative("PerSecond", o.PerSecond), negative("MaxFailures", o.MaxFailures),
		negative("KeepSnapshots", o.KeepSnapshots), negative("Age", o.Age),
	}
	if err := progress.Fault(o.Projections); err != nil {
		faults = append(faults, err)
	}
	if store == nil {
		faults = append(faults, errors.New("the store is nil"))
	}
	if o.AtOnce && o.Age != 0 {
		faults = append(faults, errors.New("AtOnce has no Age"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, &annals.Error{Op: "cleanup.New", Kind: annals.ErrInvalid, Err: err}
	}
	o.Concurrency = or(o.Concurrency, 4)
	o.MaxFailures = or(o.MaxFailures, 100)
	o.KeepSnapshots = or(o.KeepSnapshots, 1)
	if !o.AtOnce {
		o.Age = or(o.Age, annals.ForgetAge)
	}
	c := &Cleaner{store: store, caps: store.Capabilities(), o: o}
	if c.caps.Forgets {
		c.forgetter, _ = store.(annals.Forgetter)
	}
	if len(o.Projections) > 0 && !c.caps.Offsets {
		return nil, &annals.Error{Op: "cleanup.New", Kind: annals.ErrUnsupported, Err: errors.New("the store keeps no projections")}
	}
	return c, nil
}

// DeleteEvents deletes the events up to and including to, annals.MaxSeqNr for all.
func (c *Cleaner) DeleteEvents(ctx context.Context, ids iter.Seq2[annals.PersistenceID, error], to annals.SeqNr) (Report, error) {
	return c.run(ctx, "delete events", c.caps.Events, ids, func(ctx context.Context, w *work) error {
		return w.deleteEvents(ctx, to)
	})
}

// DeleteSnapshots deletes all snapshots. What only they still hold is lost: see DeleteBeforeSnapshot for the opposite.
func (c *Cleaner) DeleteSnapshots(ctx context.Context, ids iter.Seq2[annals.PersistenceID, error]) (Report, error) {
	return c.run(ctx, "delete snapshots", c.caps.Snapshots, ids, func(ctx context.Context, w *work) error {
		return w.deleteSnapshots(ctx)
	})
}

// DeleteBeforeSnapshot deletes the events that the oldest kept snapshot covers, and the snapshots older than it. An
// entity without a snapshot keeps everything. Entities may be at work meanwhile.
func (c *Cleaner) DeleteBeforeSnapshot(ctx context.Context, ids iter.Seq2[annals.PersistenceID, error]) (Report, error) {
	able := c.caps.Events && c.caps.Snapshots
	return c.run(ctx, "delete before snapshot", able, ids, func(ctx context.Context, w *work) error {
		return w.deleteBeforeSnapshot(ctx)
	})
}

// DeleteEntities deletes all events and snapshots and the state. The numbers stay, so the ids may be used again at once.
func (c *Cleaner) DeleteEntities(ctx context.Context, ids iter.Seq2[annals.PersistenceID, error]) (Report, error) {
	able := c.caps.Events || c.caps.States
	return c.run(ctx, "delete entities", able, ids, func(ctx context.Context, w *work) error {
		return w.deleteEntity(ctx)
	})
}

// ForgetEntities deletes entities and forgets those that were deleted long enough ago, so it takes two runs: what the
// first one deletes is Waiting, and the second one, Options.Age later, also removes the snapshots that came late. The
// package says what forgetting ends.
func (c *Cleaner) ForgetEntities(ctx context.Context, ids iter.Seq2[annals.PersistenceID, error]) (Report, error) {
	able := c.forgetter != nil && (c.caps.Events || c.caps.States)
	return c.run(ctx, "forget entities", able, ids, func(ctx context.Context, w *work) error {
		if err := w.deleteEntity(ctx); err != nil {
			return err
		}
		return w.forget(ctx)
	})
}

// ForgetDeleted forgets the entities of which everything was deleted long enough ago, by whomever, and leaves all others
// alone: those are Kept or Waiting.
func (c *Cleaner) ForgetDeleted(ctx context.Context, ids iter.Seq2[annals.PersistenceID, error]) (Report, error) {
	return c.run(ctx, "forget deleted", c.forgetter != nil, ids, func(ctx context.Context, w *work) error {
		err := w.forget(ctx)
		if errors.Is(err, annals.ErrConflict) {
			w.Kept, err = true, nil
		}
		return err
	})
}

// IDs is a list as the methods of a Cleaner take it.
func IDs(ids ...annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	return func(yield func(annals.PersistenceID, error) bool) {
		for _, id := range ids {
			if !yield(id, nil) {
				return
			}
		}
	}
}

func or[T int | time.Duration](n, otherwise T) T {
	if n == 0 {
		return otherwise
	}
	return n
}

func negative[T int | time.Duration](name string, n T) error {
	if n < 0 {
		return fmt.Errorf("%s is %v", name, n)
	}
	return nil
}
