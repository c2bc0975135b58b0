package cleanup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/claims"
	"github.com/annals-go/annals/internal/progress"
)

// Options are the options of a Cleaner. The zero Options are valid.
type Options struct {
	Concurrency int  // number of entities that are processed at the same time, at most 10,000; 0: 4
	PerSecond   int  // largest number of entities that are begun in a second; 0: no limit
	DryRun      bool // count what would be done, and write nothing
	MaxFailures int  // number of failed entities that ends a run; 0: 100

	KeepSnapshots int           // number of newest snapshots that DeleteBeforeSnapshot keeps; 0: 1
	Age           time.Duration // an entity is forgotten when this time has passed since the last delete of it; 0: ability.ForgetAge
	AtOnce        bool          // forget entities of any age: only when no program can write to them any more

	// NoWriters declares that no program writes to the entities of a run, or has them in memory. Without it, events are not deleted from a
	// store that does not claim Capabilities.FenceAfterDelete (ErrUnsupported): there, a writer beside the run loses commits that were
	// acknowledged. Nor are entities deleted or forgotten on a store that is no ability.Skipper: there, a runtime that has a deleted
	// entity in memory continues it.
	NoWriters bool

	// Projections are the names of projections in the store's OffsetStore. No event is deleted that one of them has not handled: the
	// entity fails with annals.ErrUnavailable instead. Forgotten entities are removed from their offsets, and from those of the projections
	// that have been run on the store, where it claims Capabilities.IDQueries.
	Projections []string

	// Readable returns an error when a snapshot cannot be decoded; the Decode of its codec will do. Then DeleteBeforeSnapshot deletes no
	// event that the snapshot covers, and the entity fails with annals.ErrCorrupt, or annals.ErrUnavailable if the error is. nil: snapshots are not checked.
	Readable func(annals.Snapshot) error

	// Progress is called for each entity, in the order of the ids and one call at a time, with the report so far. May be nil.
	Progress func(Result, Report)
}

// Cleaner deletes from one store. It may be used from many goroutines at once.
//
// The methods take ids as annals.Query.IDs yields them; IDs makes such a sequence of a list. Each entity is processed independently of
// the others and once only. Every step can be repeated: after a failure, run again. The error of a run is an *Error.
type Cleaner struct {
	store     annals.Store
	forgetter ability.Forgetter // nil: the store cannot forget
	keeps     error             // why it cannot
	skipper   ability.Skipper   // nil: the store cannot skip
	stays     error             // why it cannot
	caps      annals.Capabilities
	o         Options
}

// New returns a Cleaner of store. All faults of o are in one error, which is annals.ErrInvalid. It is annals.ErrUnsupported when o names
// projections and the store has no offsets.
func New(store annals.Store, o Options) (*Cleaner, error) {
	faults := []error{
		negative("Concurrency", o.Concurrency), negative("PerSecond", o.PerSecond), negative("MaxFailures", o.MaxFailures),
		negative("KeepSnapshots", o.KeepSnapshots), negative("Age", o.Age), progress.Fault(o.Projections),
	}
	if store == nil {
		faults = append(faults, errors.New("the store is nil"))
	}
	if o.Concurrency > 10_000 {
		faults = append(faults, fmt.Errorf("Concurrency is %d", o.Concurrency))
	}
	if o.AtOnce && o.Age != 0 {
		faults = append(faults, errors.New("AtOnce has no Age"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, &annals.Error{Op: "cleanup.New", Kind: annals.ErrInvalid, Err: err}
	}
	o.Concurrency = cmp.Or(o.Concurrency, 4)
	o.MaxFailures = cmp.Or(o.MaxFailures, 100)
	o.KeepSnapshots = cmp.Or(o.KeepSnapshots, 1)
	if !o.AtOnce {
		o.Age = cmp.Or(o.Age, ability.ForgetAge)
	}
	c := &Cleaner{store: store, caps: store.Capabilities(), o: o}
	c.forgetter, c.keeps = ability.Of[ability.Forgetter](store)
	c.skipper, c.stays = ability.Of[ability.Skipper](store)
	if len(o.Projections) > 0 {
		if err := claims.Refusal("cleanup.New", c.caps, claims.Cleaned); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// needs are the features of a run that deletes events, where the store has them.
func (c *Cleaner) needs(also ...claims.Feature) []claims.Feature {
	if !c.caps.States {
		also = append(also, claims.CleanedEvents)
	}
	if c.caps.Events && !c.o.NoWriters {
		also = append(also, claims.CleanedBeside)
	}
	return also
}

// whole is run for entities that are deleted or forgotten whole. Without a Skipper a runtime that has one in memory would not notice.
func (c *Cleaner) whole(ctx context.Context, op string, ids iter.Seq2[annals.PersistenceID, error], each func(ctx context.Context, w *work) error) (Report, error) {
	if c.stays != nil && c.caps.Events && !c.o.NoWriters {
		return Report{}, &Error{Op: op, Err: fmt.Errorf("%w, and Options.NoWriters accepts this one", c.stays)}
	}
	return c.run(ctx, op, c.needs(), ids, each)
}

// DeleteEvents deletes the events up to and including to, annals.MaxSeqNr for all.
func (c *Cleaner) DeleteEvents(ctx context.Context, ids iter.Seq2[annals.PersistenceID, error], to annals.SeqNr) (Report, error) {
	return c.run(ctx, "delete events", c.needs(claims.CleanedEvents), ids, func(ctx context.Context, w *work) error {
		return w.deleteEvents(ctx, to)
	})
}

// DeleteSnapshots deletes all snapshots. An entity whose events are deleted loses its state by that. DeleteBeforeSnapshot does not delete the
// newest snapshots.
func (c *Cleaner) DeleteSnapshots(ctx context.Context, ids iter.Seq2[annals.PersistenceID, error]) (Report, error) {
	return c.run(ctx, "delete snapshots", []claims.Feature{claims.CleanedSnapshot}, ids, func(ctx context.Context, w *work) error {
		return w.deleteSnapshots(ctx, annals.MaxSeqNr)
	})
}

// DeleteBeforeSnapshot deletes the events that the oldest kept snapshot covers, and the snapshots older than it. Of an entity without a
// snapshot nothing is deleted. Entities may be written during the run.
func (c *Cleaner) DeleteBeforeSnapshot(ctx context.Context, ids iter.Seq2[annals.PersistenceID, error]) (Report, error) {
	return c.run(ctx, "delete before snapshot", c.needs(claims.CleanedEvents, claims.CleanedSnapshot), ids, func(ctx context.Context, w *work) error {
		return w.deleteBeforeSnapshot(ctx)
	})
}

// DeleteEntities deletes all events, all snapshots and the state. The store keeps the last numbers, so the ids may be used again at once.
func (c *Cleaner) DeleteEntities(ctx context.Context, ids iter.Seq2[annals.PersistenceID, error]) (Report, error) {
	return c.whole(ctx, "delete entities", ids, func(ctx context.Context, w *work) error {
		return w.deleteEntity(ctx)
	})
}

// ForgetEntities deletes entities, and forgets those whose last delete is older than Options.Age. So two runs are needed: an entity that the
// first run deletes is Waiting. The second run, Options.Age later, forgets it. Where it finds a snapshot that arrived after the first run, it
// deletes that, and the entity is Waiting again.
// The package comment explains the consequences.
func (c *Cleaner) ForgetEntities(ctx context.Context, ids iter.Seq2[annals.PersistenceID, error]) (Report, error) {
	if c.keeps != nil {
		return Report{}, &Error{Op: "forget entities", Err: c.keeps}
	}
	return c.whole(ctx, "forget entities", ids, func(ctx context.Context, w *work) error {
		if err := w.deleteEntity(ctx); err != nil {
			return err
		}
		return w.forget(ctx)
	})
}

// ForgetDeleted forgets the entities of which everything is deleted and whose last delete is older than Options.Age. It changes no other
// entity: those are Kept or Waiting.
func (c *Cleaner) ForgetDeleted(ctx context.Context, ids iter.Seq2[annals.PersistenceID, error]) (Report, error) {
	if c.keeps != nil {
		return Report{}, &Error{Op: "forget deleted", Err: c.keeps}
	}
	return c.run(ctx, "forget deleted", nil, ids, func(ctx context.Context, w *work) error {
		err := w.forget(ctx)
		if errors.Is(err, annals.ErrConflict) {
			w.Kept, err = true, nil
		}
		return err
	})
}

// IDs makes a sequence, as the methods of a Cleaner take it, of a list.
func IDs(ids ...annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	return func(yield func(annals.PersistenceID, error) bool) {
		for _, id := range ids {
			if !yield(id, nil) {
				return
			}
		}
	}
}

func negative[T int | time.Duration](name string, n T) error {
	if n < 0 {
		return fmt.Errorf("%s is %v", name, n)
	}
	return nil
}
