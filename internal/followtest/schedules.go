package followtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/late"
	"github.com/annals-go/annals/internal/position"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/projection"
)

// schedule is an order of steps. In the first two one guard alone keeps events from being handled twice.
type schedule[T any] func(w *world[T], ctx context.Context) error

func schedules[T any]() map[string]schedule[T] {
	return map[string]schedule[T]{
		"a loop without a lease": (*world[T]).besideALoop,
		"stopped in a retry":     (*world[T]).stoppedInARetry,
		"a server that denies":   (*world[T]).denied,

		"a handler that does not return":        func(w *world[T], ctx context.Context) error { return w.hanging(ctx, atLeastOnce) },
		"a handler that breaks its transaction": (*world[T]).breaking,
		"an event that fails again and again":   (*world[T]).parking,
		"resets of events":                      func(w *world[T], ctx context.Context) error { return w.resets(ctx, exactlyOnce) },
		"resets of states":                      func(w *world[T], ctx context.Context) error { return w.resets(ctx, ofStates) },

		"one within its transaction": func(w *world[T], ctx context.Context) error { return w.hanging(ctx, exactlyOnce) },
	}
}

// in runs s, and returns what is wrong with what was handled.
func (s schedule[T]) in(ctx context.Context, target Target[T], l late.Lies, r *random.Source) error {
	w := newWorld(target, exactlyOnce, r)
	w.lies = l
	return errors.Join(s(w, ctx), w.check(ctx))
}

// besideALoop: when a runner has read events and not begun its transaction, a loop without a lease handles them. This raises no epoch, so the
// runner is not fenced. Only Progress.Once undoes its transaction.
func (w *world[T]) besideALoop(ctx context.Context) error {
	id := annals.NewPersistenceID(Type, "1")
	if err := w.append(ctx, w.commit(id)); err != nil {
		return err
	}
	return w.running(ctx, func(s *unreliable[T]) {
		s.beforeTx(func() error { return w.loop(ctx, id) })
	}, func(s *unreliable[T]) error {
		return errors.Join(s.awaitTx(ctx), w.awaitHandled(ctx))
	})
}

// loop handles the events of id.
func (w *world[T]) loop(ctx context.Context, id annals.PersistenceID) error {
	return w.Store.InTx(ctx, func(ctx context.Context, tx T, in annals.Store) error {
		p := annals.Progress{Projection: name, Slices: w.sliceRange(id), Once: true}
		for e, err := range w.Events.Journal().Replay(ctx, id, 1, annals.MaxSeqNr) {
			if err == nil {
				err = w.Add(ctx, tx, w.entry(envelope{Event: e}))
			}
			if err != nil {
				return err
			}
			p.Offsets = append(p.Offsets, e.Offset())
		}
		return in.Offsets().Save(ctx, p)
	})
}

// stoppedInARetry: a runner has read the event of a parked entity that waits, and is stopped before the transaction that handles it. Then another
// runner takes the range and handles the event. A position covers events that wait, so Progress.Once is no guard for them. The fence undoes the
// transaction of the runner that was stopped, and so does the revision of the parked entities.
func (w *world[T]) stoppedInARetry(ctx context.Context) error {
	c := w.commit(annals.NewPersistenceID(Type, "1"))
	c.Events = c.Events[:1] // so that after the transaction that parks the entity the next one is that of the retry
	if err := w.append(ctx, c); err != nil {
		return err
	}
	w.broken.Store(true)
	return w.running(ctx, func(*unreliable[T]) {}, func(s *unreliable[T]) error {
		control := projection.NewControl(w.Store, name)
		if err := until(ctx, func() (bool, error) {
			for _, err := range control.Parked(ctx, "") {
				return err == nil, err
			}
			return false, nil
		}); err != nil {
			return err
		}
		w.broken.Store(false)
		s.beforeTx(func() error {
			s.stop.Shut()
			defer s.stop.Open()
			return w.running(ctx, func(*unreliable[T]) {}, func(*unreliable[T]) error { return w.awaitHandled(ctx) })
		})
		return errors.Join(control.Retry(ctx), s.awaitTx(ctx))
	})
}

// denied: for a while the server denies what the runner asks for, since a table is renamed or a right is missing. The runner goes on afterwards,
// and no event is said to have failed.
func (w *world[T]) denied(ctx context.Context) error {
	id := annals.NewPersistenceID(Type, "1")
	handled := func() error { return errors.Join(w.append(ctx, w.commit(id)), w.awaitHandled(ctx)) }
	return w.running(ctx, func(*unreliable[T]) {}, func(s *unreliable[T]) error {
		for range 2 {
			if err := handled(); err != nil {
				return err
			}
			deny := func(_ context.Context, denies bool) error { s.denies.Store(denies); return nil }
			if w.Deny != nil {
				deny = w.Deny
			}
			if err := deny(ctx, true); err != nil {
				return err
			}
			<-time.After(4 * lease)
			if err := deny(ctx, false); err != nil {
				return err
			}
		}
		if n := w.asked.Load(); n > 0 {
			return fmt.Errorf("asked about %d failures of events", n)
		}
		return handled()
	})
}

// hanging: the handler of a runner does not return, so another runner handles the events. A transaction that the handler is in holds up no other for
// long, and what the handler still writes in it has no effect.
func (w *world[T]) hanging(ctx context.Context, g guarantee) error {
	w.guarantee, w.timeout = g, lease
	handled := func() error {
		return errors.Join(w.append(ctx, w.commit(annals.NewPersistenceID(Type, "1"))), w.awaitHandled(ctx))
	}
	hangs := make(chan struct{})
	return w.running(ctx, func(s *unreliable[T]) { s.hangs = hangs }, func(*unreliable[T]) error {
		if err := w.append(ctx, w.commit(annals.NewPersistenceID(Type, "1"))); err != nil {
			return err
		}
		control := projection.NewControl(w.Store, name)
		err := until(ctx, func() (bool, error) {
			status, err := control.Status(ctx, w.Events)
			if errors.Is(err, annals.ErrInvalid) { // the runner has not joined
				err = nil
			}
			return slices.ContainsFunc(status.Ranges, func(r projection.RangeStatus) bool { return r.Hangs }), err
		})
		if err == nil {
			err = w.running(ctx, func(*unreliable[T]) {}, func(*unreliable[T]) error { return errors.Join(handled(), handled()) })
		}
		close(hangs)
		return errors.Join(err, handled())
	})
}

// breakage is what the handler of one event does.
type breakage[T any] struct {
	id     annals.PersistenceID
	number annals.SeqNr
	by     func(ctx context.Context, tx T) error
}

// breaking: the handler of one event of many fails, or breaks its transaction and returns nil. This event reaches OnError, alone, and all are handled.
func (w *world[T]) breaking(ctx context.Context) error {
	ways := map[string]func(ctx context.Context, tx T) error{"an error": func(context.Context, T) error { return errBroken }}
	for name, by := range w.Breaks {
		ways[name] = func(ctx context.Context, tx T) error { by(ctx, tx); return nil }
	}
	return w.running(ctx, func(*unreliable[T]) {}, func(*unreliable[T]) error {
		for name, by := range ways {
			c := w.commit(annals.NewPersistenceID(Type, "1"))
			c.Events = slices.Repeat(c.Events[:1], 15)
			asked, b := w.asked.Load(), &breakage[T]{c.ID, c.After + 8, by}
			w.breaks.Store(b)
			if err := errors.Join(w.append(ctx, c), w.awaitHandled(ctx)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if e := w.blamed.Load(); w.asked.Load() != asked+1 || e.ID != b.id || e.SeqNr != b.number {
				return fmt.Errorf("%s by event %d: asked about %d, the last is %+v", name, b.number, w.asked.Load()-asked, e)
			}
		}
		return nil
	})
}

// parking: an entity is parked, and again after a retry. Then its event is discarded, and after a reset it is handled like all others.
func (w *world[T]) parking(ctx context.Context) error {
	w.guarantee = atLeastOnce
	good, bad := w.commit(annals.NewPersistenceID(Type, "1")), w.commit(annals.NewPersistenceID(Type, "2"))
	bad.Events = bad.Events[:1]
	return w.running(ctx, func(*unreliable[T]) {}, func(*unreliable[T]) error {
		control := projection.NewControl(w.Store, name)
		parked := func(tries, least int) error {
			return until(ctx, func() (bool, error) {
				n := 0
				for x, err := range control.Parked(ctx, "") {
					if err != nil {
						return false, err
					}
					if n++; x.ID != bad.ID || x.From != 1 || x.Retry || x.Tries < tries {
						return false, nil
					}
				}
				return n == least, nil
			})
		}
		if err := errors.Join(w.append(ctx, good), w.awaitHandled(ctx)); err != nil {
			return err
		}
		w.broken.Store(true)
		err := errors.Join(w.append(ctx, bad), parked(0, 1), control.Retry(ctx, bad.ID), parked(1, 1), control.Discard(ctx, bad.ID, 1), parked(0, 0))
		before := w.stamp.Load()
		if w.broken.Store(false); err != nil {
			return err
		}
		return errors.Join(control.Reset(ctx, annals.Offset{}), until(ctx, func() (bool, error) {
			all, err := w.entries(ctx)
			again := map[Entry]bool{}
			for _, e := range all {
				if e.Stamp <= before && e.ID == bad.ID {
					return false, fmt.Errorf("%q is handled, though its event was discarded", e.ID)
				} else if e.Stamp > before {
					again[Entry{ID: e.ID, SeqNr: e.SeqNr}] = true
				}
			}
			return len(again) == len(good.Events)+1, err
		}))
	})
}

// below: events appear below the position. One entity has a later event, the other one has none. They are handled, counted and logged.
func (w *world[T]) below(ctx context.Context, late Late) error {
	w.audit, w.poll = 20*time.Second, 5*poll // the test takes long, and requests that find nothing take processor time
	other, alone, followed := annals.NewPersistenceID(Type, "1"), annals.NewPersistenceID(Type, "2"), annals.NewPersistenceID(Type, "3")
	control := projection.NewControl(w.Store, name)
	return w.running(ctx, func(*unreliable[T]) {}, func(*unreliable[T]) error {
		var store Store
		var began, passed, newest time.Time // passed by all ranges, and by one
		warned := late.Warning == ""
		if err := until(ctx, func() (_ bool, err error) { // with an event in each range, the position is saved often
			if err := backoff.Wait(ctx, 9); err != nil {
				return false, err
			}
			if store == nil || newest.After(began.Add(w.audit/2)) { // an event that is stored much later need not be handled: begin again
				if store, err = late.Begin(ctx); err != nil {
					return false, err
				}
				if began, err = w.Events.Query().Watermark(ctx); err != nil {
					return false, err
				}
			}
			for _, id := range w.inEachRange() {
				if err := w.append(ctx, w.commit(id)); err != nil {
					return false, err
				}
			}
			status, err := control.Status(ctx, w.Events)
			if err != nil || len(status.Ranges) < ranges {
				return false, err
			}
			passed, newest = status.Ranges[0].Through.Time, began
			for _, r := range status.Ranges {
				if at := r.Through.Time; at.Before(passed) {
					passed = at
				} else if at.After(newest) {
					newest = at
				}
				warned = warned || strings.Contains(r.Warning, late.Warning)
			}
			return passed.After(began.Add(2*time.Second)) && warned, nil
		}); err != nil {
			return fmt.Errorf("the position is at %v, and began at %v; warned: %t: %w", passed, began, warned, err)
		}
		a, b := w.commit(alone), w.commit(followed)
		if err := store(ctx, passed, a, b); err != nil {
			return err
		}
		w.wrote(a)
		w.wrote(b)
		if err := errors.Join(w.append(ctx, w.commit(followed)), w.append(ctx, w.commit(other)), w.awaitHandled(ctx)); err != nil {
			return err
		}
		var status projection.Status
		if err := until(ctx, func() (_ bool, err error) {
			status, err = control.Status(ctx, w.Events)
			return status.Late >= 2 && status.Parked == 0, err
		}); err != nil {
			return fmt.Errorf("all events are handled, and the status is %+v: %w", status, err)
		}
		if !strings.Contains(w.log.String(), "events became visible after a projection had passed their time") {
			return errors.New("nothing is logged")
		}
		return nil
	})
}

// running runs a runner, on a store of which no request fails, while during runs. before is called before.
func (w *world[T]) running(ctx context.Context, before func(*unreliable[T]), during func(*unreliable[T]) error) error {
	s := newUnreliable(w.Store, w.Events, w.lies, w.random, 0)
	before(s)
	r, err := w.runner(s)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	err = during(s)
	end()
	return errors.Join(err, <-ended)
}

// awaitHandled returns when all events have been handled.
func (w *world[T]) awaitHandled(ctx context.Context) error {
	return until(ctx, func() (bool, error) {
		all, err := w.entries(ctx)
		w.compare(all)
		return w.skipped == 0, err
	})
}

// until calls done again and again until it is true or an error.
func until(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if err := backoff.Wait(ctx, 7); err != nil {
			return err
		}
	}
}

// inEachRange returns an entity in each range of the projection.
func (w *world[T]) inEachRange() (ids []annals.PersistenceID) {
	found := map[annals.SliceRange]bool{}
	for i := 0; len(found) < ranges; i++ {
		if id := annals.NewPersistenceID(Type, fmt.Sprint("more-", i)); !found[w.sliceRange(id)] {
			found[w.sliceRange(id)], ids = true, append(ids, id)
		}
	}
	return ids
}

// sliceRange is the range of the projection with id.
func (w *world[T]) sliceRange(id annals.PersistenceID) (own annals.SliceRange) {
	for _, r := range position.Divide(ranges, w.Events.Capabilities().SpreadSlices) {
		if r.Contains(id.Slice()) {
			own = r
		}
	}
	return own
}
