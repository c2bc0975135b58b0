package projection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
)

// begin returns where the worker begins, and reads the parked entities of its slices.
//
// An entry whose event the position does not cover is removed, because that event comes again: the position was reset, or a worker ended
// between parking the entity and saving its position. The save before is a fence. A worker that was replaced fails at it. A worker that is
// replaced afterwards cannot remove what its successor parks, because that changes the revision.
func (w *worker) begin(ctx context.Context) (start, error) {
	read, err := w.readParked(ctx)
	if err != nil {
		return start{}, err
	}
	if len(read) > 0 {
		if err := w.r.offsets.Offsets().Save(ctx, w.progress); err != nil {
			return start{}, err
		}
	}
	positions, err := w.r.offsets.Offsets().Load(ctx, w.r.name, w.progress.Slices)
	if err != nil {
		return start{}, err
	}
	for _, p := range positions {
		if p.Through == (annals.Offset{}) && w.r.o.From != p.Through { // what From leaves out counts as handled from now on
			if err := w.r.offsets.Offsets().Save(ctx, annals.Progress{Projection: w.r.name, Slices: p.Slices, Epoch: w.progress.Epoch, Through: w.r.o.From}); err != nil {
				return start{}, err
			}
		}
	}
	from := newStart(positions, w.r.o.From)
	for _, p := range read {
		if p.remove(func(x ParkedEntity) bool { return from.covers(x.offset()) }) {
			if err := p.save(ctx, w.r.offsets); err != nil {
				return start{}, err
			}
		}
	}
	w.take(read)
	return from, w.unlist(ctx)
}

// readParked reads the parked entities of the worker's slices, and the past.
func (w *worker) readParked(ctx context.Context) (read []parkedSlice, err error) {
	w.orders = w.r.orders.Load()
	if w.past, err = loadPast(ctx, w.r.offsets, w.r.name, w.progress.Slices); err != nil {
		return nil, err
	}
	for p, err := range allParked(ctx, w.r.offsets, w.r.name, w.progress.Slices) {
		if err != nil {
			return nil, err
		}
		read = append(read, p)
	}
	return read, nil
}

// take makes read the parked entities of the worker.
func (w *worker) take(read []parkedSlice) {
	w.parked, w.ordered = map[int]parkedEntities{}, nil
	for _, p := range read {
		w.parked[p.slice] = p.entities
		for _, x := range p.sorted() {
			if x.Retry {
				w.ordered = append(w.ordered, x)
			}
		}
	}
}

// unlist takes slices without parked entities off the list, so that nobody has to read them.
func (w *worker) unlist(ctx context.Context) error {
	var unused []int
	for slice, entities := range w.parked {
		if len(entities) == 0 {
			unused = append(unused, slice)
			delete(w.parked, slice)
		}
	}
	if unused == nil {
		return nil
	}
	return unlistParked(ctx, w.r.offsets, w.r.name, unused)
}

// divide is pass for events that have been read. When some of them would be passed, it looks for orders first: an entity that Control.Forget has
// removed may have begun again.
func (w *worker) divide(ctx context.Context, events []annals.Event) (others []annals.Event, passed []annals.Offset, err error) {
	if others, passed = w.pass(events); len(passed) == 0 {
		return others, nil, nil
	}
	r, _, err := recordOf(w.r.name).Load(ctx, w.r.offsets)
	if err != nil || r.Orders == w.orders {
		return others, passed, err
	}
	w.r.orders.Store(r.Orders)
	read, err := w.readParked(ctx)
	if err != nil {
		return nil, nil, err
	}
	w.take(read)
	others, passed = w.pass(events)
	return others, passed, nil
}

// pass divides events: those of parked entities are passed.
func (w *worker) pass(events []annals.Event) (others []annals.Event, passed []annals.Offset) {
	if len(w.parked) == 0 {
		return events, nil
	}
	for _, e := range events {
		if _, ok := w.parked[e.ID.Slice()][e.ID]; ok {
			passed = append(passed, e.Offset())
			w.lateness.passed[e.ID] = e.Offset()
		} else {
			others = append(others, e)
		}
	}
	return others, passed
}

// park parks the entity of e, whose handler failed with cause, or leaves it parked from e on. x is its entry, with From 0 when there is none.
// s takes the worker on by what it has passed. before is the revision of the slice before a retry of e; 0 is no retry.
func (w *worker) park(ctx context.Context, x ParkedEntity, e annals.Event, cause error, s step, before annals.SeqNr) error {
	p, err := w.loadParked(ctx, x)
	if err != nil {
		return err
	}
	failed := x.failed(e, cause, w.r.o.ErrorText)
	if now := p.entities[e.ID]; now.Retry && p.revision != before { // an order was given while e was handled, for its entity or another one
		failed.Retry, failed.DiscardTo = true, now.DiscardTo
	}
	p.entities[e.ID] = failed
	switch err := w.saveParked(ctx, p, s); {
	case errors.Is(err, annals.ErrTooLarge):
		return w.stop(e, fmt.Errorf("the parked entities of slice %d do not fit into one state: %w", p.slice, errors.Join(err, cause)))
	case err != nil:
		return err
	}
	if through := s.progress.Through; through != (annals.Offset{}) {
		w.saved, w.savedAt = through, time.Now()
	}
	return nil
}

// saveParked saves p and the progress of s, which has no events. One transaction does both, or p is written first.
func (w *worker) saveParked(ctx context.Context, p parkedSlice, s step) error {
	s.also = func(ctx context.Context, in annals.Store, _ int) error { return p.save(ctx, in) }
	_, err := w.r.deliver(ctx, s)
	if err == nil {
		w.parked[p.slice], w.tries = p.entities, 0
		w.health.succeeds()
	}
	return err
}

// carryOut carries out the orders of Control for the slices of the worker.
func (w *worker) carryOut(ctx context.Context) error {
	if w.orders != w.r.orders.Load() {
		read, err := w.readParked(ctx)
		if err != nil {
			return err
		}
		w.take(read)
	}
	if len(w.ordered) == 0 {
		return nil
	}
	for len(w.ordered) > 0 {
		if err := w.retry(ctx, w.ordered[0]); err != nil {
			return err
		}
		w.ordered = w.ordered[1:]
	}
	return w.unlist(ctx)
}

// retry handles the waiting events of x in their order, and moves the first that waits on in the same transactions. With the last of
// them x is not parked any more.
func (w *worker) retry(ctx context.Context, x ParkedEntity) error {
	for limit := w.size; ; {
		w.health.tries()
		p, err := w.loadParked(ctx, x)
		if err != nil {
			return err
		}
		x.DiscardTo = max(x.DiscardTo, p.entities[x.ID].DiscardTo) // by an order that was given meanwhile
		events, rest, err := w.waiting(ctx, x, limit)
		if err != nil {
			return err
		}
		s := step{events: events, progress: w.progress, also: func(ctx context.Context, in annals.Store, handled int) error {
			if next := slices.Concat(events[handled:], rest); len(next) > 0 {
				y := p.entities[x.ID]
				y.From, y.Time = next[0].SeqNr, next[0].Time
				p.entities[x.ID] = y
			} else {
				delete(p.entities, x.ID)
			}
			return p.save(ctx, in)
		}}
		if x.LateTo == 0 { // what was read before, in the order of time, did not have a late event
			s.past = w.past
		}
		done, err := w.r.deliver(ctx, s)
		f := (*failure)(nil)
		switch {
		case err == nil || done > 0:
			w.parked[p.slice], w.tries, w.undone = p.entities, 0, 0
			w.health.succeeds()
			if done > 0 && !w.lateness.passed[x.ID].Covers(events[done-1].Offset()) {
				w.lateness.retried[x.ID] = events[done-1].Offset()
			}
			moved, waits := p.entities[x.ID]
			if !waits {
				delete(w.lateness.passed, x.ID)
				return nil
			}
			x.From, x.Time = moved.From, moved.Time
		case ctx.Err() != nil:
			return ctx.Err()
		case undone(err) && w.undone < mostUndone:
			if err := w.again(ctx, err); err != nil {
				return err
			}
		case len(events) == 0 || !errors.As(err, &f) && !w.blames(ctx, events, err):
			return err
		case len(events) > 1:
			limit = 1 // to find the event that fails
		default:
			e := events[0]
			verdict, stop := w.judge(ctx, e, err)
			switch {
			case stop != nil:
				return stop
			case verdict == Skip:
				x.DiscardTo = max(x.DiscardTo, e.SeqNr)
			case verdict == Retry && x.LateTo > 0:
				if err := backoff.Wait(ctx, w.failed); err != nil {
					return err
				}
			default:
				x.Tries++
				return w.park(ctx, x, e, err, step{progress: w.progress}, p.revision)
			}
		}
	}
}

// toPark reads the parked entities of slice, to which others may be added: the slice is on the list then.
func (w *worker) toPark(ctx context.Context, slice int) (parkedSlice, error) {
	p, err := loadParked(ctx, w.r.offsets, w.r.name, slice)
	if err == nil && len(p.entities) == 0 {
		err = listParked(ctx, w.r.offsets, w.r.name, slice)
	}
	return p, err
}

// loadParked is toPark for the slice of x. ErrConflict when x is not parked from the same event any more.
func (w *worker) loadParked(ctx context.Context, x ParkedEntity) (parkedSlice, error) {
	p, err := w.toPark(ctx, x.ID.Slice())
	if err == nil && p.entities[x.ID].From != x.From {
		err = &annals.Error{Op: "park an entity", ID: x.ID, After: x.From, Last: p.entities[x.ID].From, Kind: annals.ErrConflict}
	}
	return p, err
}

// waiting returns the next events of x to handle, at most limit, and in rest the one that waits after them, if there is one. Events that
// the position does not cover do not wait: they come from the feed. Neither do those after LateTo: they were handled, or come from the feed.
func (w *worker) waiting(ctx context.Context, x ParkedEntity, limit int) (events, rest []annals.Event, err error) {
	handled, err := w.r.offsets.Offsets().Handled(ctx, w.r.name, x.ID)
	if err != nil {
		return nil, nil, err
	}
	for e, err := range w.r.stream.entity(ctx, x.ID, x.From) {
		switch {
		case err != nil:
			return nil, nil, err
		case !handled[0].Covers(e.Offset()), x.LateTo > 0 && e.SeqNr > x.LateTo:
			return events, nil, nil
		case e.SeqNr <= x.DiscardTo, w.r.stream.Tag != "" && !slices.Contains(e.Tags, w.r.stream.Tag):
		case len(events) == limit:
			return events, []annals.Event{e}, nil
		default:
			events = append(events, e)
		}
	}
	return events, nil, nil
}
