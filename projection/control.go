package projection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/progress"
	"github.com/annals-go/annals/internal/quote"
)

// Control stops, starts and watches one projection, in whatever processes its runners are. It needs only the store of the projection's
// position. Its methods may be called from many goroutines at once. Status, Parked, Await, Pause and Resume work before the projection is run for
// the first time; the others are annals.ErrInvalid then. A damaged record of the projection is annals.ErrCorrupt.
type Control struct {
	store  annals.Store
	name   string
	runner *Runner // nil: what the projection follows is known when it has been run
}

// NewControl returns the Control of the projection name, whose position is in store. It reads nothing yet.
func NewControl(store annals.Store, name string) *Control { return &Control{store: store, name: name} }

// Control returns the Control of the projection.
func (r *Runner) Control() *Control { return &Control{r.offsets, r.name, r} }

// Pause stops the projection until Resume, also for runners that are started later. It returns when no runner handles events any more: each
// finishes its batch first. Pause waits for a runner that shows no sign of life until its lease has ended. From then on such a runner
// cannot commit or save anything, but a handler that is called at least once may still be running there.
//
// When ctx ends, Pause returns its error; the projection stays paused.
func (c *Control) Pause(ctx context.Context) error {
	if err := c.change(ctx, "pause", func(r *record) { r.Paused = true }); err != nil {
		return err
	}
	var w watch
	for try := 0; ; try++ {
		r, err := c.read(ctx, "pause")
		if err != nil {
			return err
		}
		switch dead := w.Look(r.signs(), time.Now()); {
		case !r.Paused:
			return c.fault("pause", annals.ErrConflict, errors.New("it was resumed at the same time"))
		case !slices.ContainsFunc(r.Ranges, func(l lease) bool { return l.Runner != "" }):
			return c.fence(ctx)
		case len(dead) > 0:
			if err := c.change(ctx, "pause", func(r *record) { *r = r.without(w.Look(r.signs(), time.Now())...) }); err != nil {
				return err
			}
		default:
			if err := backoff.Wait(ctx, try); err != nil {
				return fmt.Errorf("annals: pause projection %s: slices are still held: %w", quote.Text(c.name), err)
			}
		}
	}
}

// fence raises the epoch of all slices, so that no earlier holder can save.
func (c *Control) fence(ctx context.Context) error {
	var fence record
	if err := c.change(ctx, "pause", func(r *record) {
		r.Epoch++
		fence = *r
	}); err != nil {
		return err
	}
	for _, l := range fence.Ranges {
		err := c.store.Offsets().Save(ctx, annals.Progress{Projection: c.name, Slices: l.slices(), Epoch: fence.Epoch})
		if err != nil && !errors.Is(err, annals.ErrFenced) { // fenced: the epoch is higher already
			return err
		}
	}
	return nil
}

// Resume ends a pause. Runners that are running take their slices again.
func (c *Control) Resume(ctx context.Context) error {
	return c.change(ctx, "resume", func(r *record) { r.Paused = false })
}

// Reset takes the projection back to to, so that it handles again what comes after to. The zero Offset is the beginning (or Options.From),
// Offset{Time: t} is just before the events stored at t. A parked entity whose event comes again is not parked any more. Events that come again
// are handed over with Envelope.Rebuilding.
//
// The projection is paused before, and resumed afterwards unless it was paused already. To empty a read model as well, call Pause, empty
// it, Reset and Resume. When Reset fails, the projection may stay paused: repeat Reset, and then Resume.
func (c *Control) Reset(ctx context.Context, to annals.Offset) error {
	before, err := c.ran(ctx, "reset")
	if err != nil {
		return err
	}
	if err := c.Pause(ctx); err != nil {
		return err
	}
	if err := c.keepPast(ctx, c.store, c.name, before); err != nil {
		return err
	}
	if err := c.store.Offsets().Reset(ctx, c.name, annals.SliceRange{}, to); err != nil {
		return err
	}
	if before.Paused {
		return nil
	}
	return c.Resume(ctx)
}

// Forget removes what the store keeps of the given entities for the projection, so that no trace of their ids is left: their offsets, and their
// entries among the parked entities. Their events must be deleted, as by cleanup.Cleaner.ForgetEntities, which does the same for the projections
// in the store that it cleans: Forget is for a projection whose position is in another store. A runner that has read events of such an entity before
// they were deleted may write an offset again: call Forget again later. It can be repeated after an error. Call Forget before a parked entity begins
// again under its id: the new events wait behind the entry of the former ones, and Forget discards them with it.
func (c *Control) Forget(ctx context.Context, ids ...annals.PersistenceID) error {
	if err := c.complete("forget entities in"); err != nil {
		return err
	}
	for _, id := range ids {
		if err := progress.Forget(ctx, c.store, c.name, id); err != nil {
			return err
		}
	}
	return nil
}

// read returns the record of the projection, which has no ranges before the first run.
func (c *Control) read(ctx context.Context, op string) (record, error) {
	if err := c.complete(op); err != nil {
		return record{}, err
	}
	r, _, err := recordOf(c.name).Load(ctx, c.store)
	return r, err
}

// ran returns the record of a projection that has been run.
func (c *Control) ran(ctx context.Context, op string) (record, error) {
	r, err := c.read(ctx, op)
	if err == nil && len(r.Ranges) == 0 {
		err = c.fault(op, annals.ErrInvalid, errors.New("no runner has run it in this store"))
	}
	return r, err
}

// change changes the record of the projection.
func (c *Control) change(ctx context.Context, op string, change func(r *record)) error {
	if err := c.complete(op); err != nil {
		return err
	}
	return recordOf(c.name).Change(ctx, c.store, func(r *record) error {
		change(r)
		return nil
	})
}

func (c *Control) complete(op string) error {
	if c.store == nil || c.name == "" {
		return c.fault(op, annals.ErrInvalid, errors.New("the store or the name is missing"))
	}
	return nil
}

func (c *Control) fault(op string, kind, err error) error {
	return &annals.Error{Op: op + " projection " + quote.Text(c.name), Kind: kind, Err: err}
}
