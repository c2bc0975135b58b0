package projection

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/annals-go/annals"
)

// oftenest is how often a range says the same again.
const oftenest = time.Minute

// lateness is what a worker finds out of the promises of the store of the events: events at or before a Through, and warnings. It belongs to the
// worker.
type lateness struct {
	waiting []annals.Event // not recorded yet
	found   int            // events since the last that was told
	last    annals.Event   // of them
	toldAt  time.Time
	passed  map[annals.PersistenceID]annals.Offset // the last event of parked entities that the feed has handed over
	retried map[annals.PersistenceID]annals.Offset // the last event that was handled of entities that were parked, until the feed has handed it over

	warning  error // of the store, that was not told on
	warnedAt time.Time
}

// late takes the events out of events that the feed has promised not to come any more: those at or before w.through.
func (w *worker) late(events []annals.Event) []annals.Event {
	return slices.DeleteFunc(events, func(e annals.Event) bool {
		o := e.Offset()
		last, retried := w.lateness.retried[e.ID]
		handled := retried && last.Covers(o)
		if retried && (!handled || o.Compare(last) == 0) { // the feed hands over none before it any more
			delete(w.lateness.retried, e.ID)
		}
		switch {
		case o.Compare(w.through) > 0:
			return false
		case handled:
			return true
		}
		w.lateness.passed[e.ID] = o
		w.lateness.waiting = append(w.lateness.waiting, e)
		w.lateness.found++
		w.lateness.last = e
		w.health.late(1)
		return true
	})
}

// handleLate handles the events that are late, and tells of them.
func (w *worker) handleLate(ctx context.Context) error {
	w.tellLate(ctx)
	w.tellWarning(ctx)
	if len(w.lateness.waiting) == 0 {
		return nil
	}
	if err := w.recordLate(ctx); err != nil {
		return err
	}
	return w.carryOut(ctx)
}

// recordLate records the events that are late, so that carryOut handles them. The position cannot tell them from those that were handled, so
// their entities are parked with an order to retry these events: a crash does not lose them, and they are handled once. An error leaves them for
// the next call.
func (w *worker) recordLate(ctx context.Context) error {
	for len(w.lateness.waiting) > 0 {
		if err := w.save(ctx); err != nil { // what is parked is at or before the position
			return err
		}
		slice := w.lateness.waiting[0].ID.Slice()
		p, err := w.toPark(ctx, slice)
		if err != nil {
			return err
		}
		ordered := parkedEntities{}
		for _, e := range w.lateness.waiting {
			x, found := ordered[e.ID]
			if _, parked := p.entities[e.ID]; parked && !found || e.ID.Slice() != slice {
				continue // a parked entity handles all its events that wait
			}
			if !found {
				x = ParkedEntity{ID: e.ID, From: e.SeqNr, Time: e.Time, Since: time.Now().UTC(), Retry: true}
			}
			x.LateTo = e.SeqNr
			p.entities[e.ID], ordered[e.ID] = x, x
		}
		if len(ordered) > 0 {
			if err := w.saveParked(ctx, p, step{progress: w.progress}); err != nil {
				return err
			}
		}
		w.parked[slice] = p.entities
		w.ordered = slices.AppendSeq(w.ordered, maps.Values(ordered))
		w.lateness.waiting = slices.DeleteFunc(w.lateness.waiting, func(e annals.Event) bool { return e.ID.Slice() == slice })
	}
	return nil
}

// settleLate records the events that are late when the worker ends. What cannot be recorded is lost when no other worker knows of it.
func (w *worker) settleLate(ctx context.Context) {
	n := len(w.lateness.waiting)
	if n == 0 {
		return
	}
	at := w.lateness.waiting[0].Time
	if err := w.recordLate(ctx); err != nil {
		w.log(ctx, slog.LevelError, "annals: events that became visible too late are not handled: Control.Reset to before their time has them handled again, with what came after them",
			slog.Int("events", n), slog.Time("time", at), slog.Any("error", err))
	}
}

// tellLate logs the late events and tells the Observer of them, at most once a minute.
func (w *worker) tellLate(ctx context.Context) {
	l := &w.lateness
	if l.found == 0 || time.Since(l.toldAt) < oftenest {
		return
	}
	w.log(ctx, slog.LevelError, "annals: events became visible after a projection had passed their time, and are handled now", slog.Int("events", l.found),
		slog.String("id", string(l.last.ID)), slog.Int64("seqNr", int64(l.last.SeqNr)), slog.Time("time", l.last.Time))
	w.r.tell(ctx, annals.Call{Op: opLate, ID: l.last.ID, Events: l.found}, annals.Result{})
	l.found, l.toldAt = 0, time.Now()
}

// warned takes a warning of the store of the events.
func (w *worker) warned(ctx context.Context, err error) {
	w.health.warns(err)
	w.lateness.warning = err
	w.tellWarning(ctx)
}

// tellWarning logs the last warning and tells the Observer of it, at most once a minute.
func (w *worker) tellWarning(ctx context.Context) {
	l := &w.lateness
	if l.warning == nil || time.Since(l.warnedAt) < oftenest {
		return
	}
	w.log(ctx, slog.LevelWarn, "annals: what a projection relies on may not hold", slog.Any("warning", l.warning))
	w.r.tell(ctx, annals.Call{Op: opWarning}, annals.Result{Warning: l.warning})
	l.warning, l.warnedAt = nil, time.Now()
}
