package projection

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/annals-go/annals"
)

// begin returns where the worker begins, and reads the parked entities of its slices.
//
// An entry whose event the position does not cover is removed, because that event comes again: the position was reset, or a worker ended
// between parking the entity and saving its position. The save before is a fence. A worker that was replaced fails at it. A worker that is
// replaced afterwards cannot remove what its successor parks, because that changes the revision.
func (w *worker) begin(ctx context.Context) (start, error) {
	w.orders = w.r.orders.Load()
	document := parkedOf(w.r.name)
	all, revision, err := document.load(ctx, w.r.offsets)
	if err != nil {
		return start{}, err
	}
	w.parked = w.ofSlices(all)
	if len(w.parked) > 0 {
		if err := w.r.offsets.Offsets().Save(ctx, w.progress); err != nil {
			return start{}, err
		}
	}
	positions, err := w.r.offsets.Offsets().Load(ctx, w.r.name, w.progress.Slices)
	if err != nil {
		return start{}, err
	}
	from := newStart(positions, w.r.o.From)
	void := 0
	for id, x := range w.parked {
		if !from.covers(x.offset()) {
			delete(w.parked, id)
			delete(all, id)
			void++
		}
	}
	if void > 0 {
		err = document.save(ctx, w.r.offsets, revision, all)
	}
	return from, err
}

// ofSlices returns the entities of p that are in the slices of the worker.
func (w *worker) ofSlices(p parkedEntities) parkedEntities {
	own := maps.Clone(p)
	maps.DeleteFunc(own, func(id annals.PersistenceID, _ ParkedEntity) bool { return !w.progress.Slices.Contains(id.Slice()) })
	if own == nil {
		own = parkedEntities{}
	}
	return own
}

// pass divides events: those of parked entities are passed.
func (w *worker) pass(events []annals.Event) (others []annals.Event, passed []annals.Offset) {
	if len(w.parked) == 0 {
		return events, nil
	}
	for _, e := range events {
		if _, ok := w.parked[e.ID]; ok {
			passed = append(passed, e.Offset())
		} else {
			others = append(others, e)
		}
	}
	return others, passed
}

// park parks the entity of e, whose handler failed with cause, and saves that the worker has passed e and passed. One transaction does
// both, or the entry is written first.
func (w *worker) park(ctx context.Context, e annals.Event, cause error, passed []annals.Offset) error {
	x := ParkedEntity{Since: time.Now().UTC()}.failed(e, cause, w.r.o.ErrorText)
	s := newStep(w.progress, nil, append(passed, e.Offset()), annals.Offset{})
	s.also = func(ctx context.Context, in annals.Store, _ int) error {
		return w.changeParked(ctx, in, func(p parkedEntities) error {
			if len(p) >= maxParked {
				return w.stop(e, fmt.Errorf("%d entities are parked, which is the most: %w", len(p), cause))
			}
			p[e.ID] = x
			return nil
		})
	}
	switch _, err := w.r.deliver(ctx, s); {
	case errors.Is(err, annals.ErrTooLarge):
		return w.stop(e, fmt.Errorf("the parked entities do not fit into one state: %w", errors.Join(err, cause)))
	case err != nil:
		return err
	}
	w.parked[e.ID] = x
	return nil
}

// changeParked changes the parked entities of the projection, in a transaction or directly. ErrConflict when another worker or Control has
// changed them at the same time.
func (w *worker) changeParked(ctx context.Context, in annals.Store, change func(parkedEntities) error) error {
	return parkedOf(w.r.name).changeOnce(ctx, in, func(p *parkedEntities) error {
		if *p == nil {
			*p = parkedEntities{}
		}
		return change(*p)
	})
}

// carryOut carries out the orders of Control for the slices of the worker.
func (w *worker) carryOut(ctx context.Context) error {
	if orders := w.r.orders.Load(); orders != w.orders {
		all, _, err := parkedOf(w.r.name).load(ctx, w.r.offsets)
		if err != nil {
			return err
		}
		w.parked = w.ofSlices(all)
		w.orders = orders
	}
	for _, x := range w.parked.sorted() {
		if x.Retry {
			if err := w.retry(ctx, x); err != nil {
				return err
			}
		}
	}
	return nil
}

// retry handles the waiting events of x in their order, and moves the first that waits on in the same transactions. With the last of
// them x is not parked any more.
func (w *worker) retry(ctx context.Context, x ParkedEntity) error {
	for limit := w.size; ; {
		events, rest, err := w.waiting(ctx, x, limit)
		if err != nil {
			return err
		}
		var moved *ParkedEntity // nil = not parked any more
		s := step{events: events, progress: w.progress, also: func(ctx context.Context, in annals.Store, handled int) error {
			next := slices.Concat(events[handled:], rest)
			return w.changeParked(ctx, in, func(p parkedEntities) error {
				if moved = nil; len(next) == 0 {
					delete(p, x.ID)
					return nil
				}
				y := p[x.ID]
				y.From, y.Time = next[0].SeqNr, next[0].Time
				p[x.ID], moved = y, &y
				return nil
			})
		}}
		done, err := w.r.deliver(ctx, s)
		f := (*failure)(nil)
		switch {
		case (err == nil || done > 0) && moved == nil:
			delete(w.parked, x.ID)
			return nil
		case err == nil || done > 0:
			x.From, x.Time = moved.From, moved.Time
			w.parked[x.ID] = x
		case ctx.Err() != nil:
			return ctx.Err()
		case len(events) == 0 || !errors.As(err, &f) && !w.blames(ctx, events, err):
			return err
		case len(events) > 1:
			limit = 1 // to find the event that fails
		default:
			e := events[0]
			switch verdict, err := w.judge(ctx, e, err); {
			case err != nil:
				return err
			case verdict == Skip:
				x.DiscardTo = max(x.DiscardTo, e.SeqNr)
			default:
				return w.parkAgain(ctx, x, e, err)
			}
		}
	}
}

// waiting returns the next events of x to handle, at most limit, and in rest the one that waits after them, if there is one. Events that
// the position does not cover do not wait: they come from the feed.
func (w *worker) waiting(ctx context.Context, x ParkedEntity, limit int) (events, rest []annals.Event, err error) {
	handled, err := w.r.offsets.Offsets().Handled(ctx, w.r.name, x.ID)
	if err != nil {
		return nil, nil, err
	}
	for e, err := range w.r.stream.entity(ctx, x.ID, x.From) {
		switch {
		case err != nil:
			return nil, nil, err
		case !handled[0].Covers(e.Offset()):
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

// parkAgain ends the retry of x, which stays parked from e on.
func (w *worker) parkAgain(ctx context.Context, x ParkedEntity, e annals.Event, cause error) error {
	x = x.failed(e, cause, w.r.o.ErrorText)
	x.Tries++
	_, err := w.r.deliver(ctx, step{progress: w.progress, also: func(ctx context.Context, in annals.Store, _ int) error {
		return w.changeParked(ctx, in, func(p parkedEntities) error {
			p[x.ID] = x
			return nil
		})
	}})
	if err == nil {
		w.parked[x.ID] = x
	}
	return err
}
