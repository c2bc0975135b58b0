package query

import (
	"context"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// missingEvents finds what a Feed of events has to hand over before an event.
type missingEvents struct{ *Feed[annals.Event] }

// before returns the events of e's entity that must be handed over before e: lower numbers that have not become visible to queries. The
// journal has them, because an entity's events are stored in order. At most max are returned, and false when there are more.
//
// Everything before the watermark has been visible when the feed has read there, so nothing is missing before an event that is found there in
// the order of offsets. An event at or before the floor was not found there in time, and neither may those before a new one be of an entity
// of which nothing is known.
//
// An entity may have been forgotten since the event that was handed over last, and have begun again. Its numbers then say nothing.
func (f missingEvents) before(ctx context.Context, e annals.Event, max int) (found []annals.Event, all bool, err error) {
	entity, known := f.handedOver.entity(e.ID)
	same := known && e.Time.Sub(entity.covered.Time) < ability.ForgetAge
	follows := e.SeqNr == 1 || same && e.SeqNr == entity.last+1
	hole := known && e.SeqNr > entity.last+1
	late := e.Offset().Compare(f.floor) <= 0 || !known && f.watermark.Sub(e.Time) < f.options.Audit
	if follows || f.settled(e.Offset()) && !late && (!hole || f.filter.Tag != "") {
		return nil, true, nil
	}
	return f.missingBefore(ctx, e, entity.last+1, hole, same, max)
}

// missingBefore is before of an e whose entity has to be read from next on. If hole, the numbers from next on may have been deleted; if not
// same, next may be of the entity before it was forgotten.
func (f missingEvents) missingBefore(ctx context.Context, e annals.Event, next annals.SeqNr, hole, same bool, max int) (found []annals.Event, all bool, err error) {
	if !hole || !same {
		if next, err = f.firstMissing(ctx, e); err != nil {
			return nil, false, err
		}
	}
	skipped := func(to annals.SeqNr) {
		if hole && next <= to {
			f.options.OnSkip(e.ID, next, to)
		}
	}
	if next < e.SeqNr {
		for x, err := range f.store.Journal().Replay(ctx, e.ID, next, e.SeqNr-1) {
			if err != nil {
				return found, false, err
			}
			// An imported event can have come before one with a lower number and a later time.
			fits := !f.handedOver.covers(x.Offset()) && (f.filter.Tag == "" || slices.Contains(x.Tags, f.filter.Tag))
			if fits && len(found) == max {
				return found, false, nil
			}
			skipped(x.SeqNr - 1)
			next = x.SeqNr + 1
			if fits {
				found = append(found, x)
			}
			f.handedOver.add(x.Offset(), f.floor)
		}
	}
	skipped(e.SeqNr - 1)
	return found, true, nil
}

// firstMissing returns the lowest number of e's entity from which on nothing has been handed over. It reads the journal backwards, each
// time more, up to an event that has been handed over: of an entity that was not active of late that is the first one.
func (f missingEvents) firstMissing(ctx context.Context, e annals.Event) (annals.SeqNr, error) {
	low := e.SeqNr
	for step := annals.SeqNr(1); low > 1; step = 4 * min(step, annals.MaxSeqNr/4) {
		to, first := low-1, annals.SeqNr(0)
		low = max(1, low-step)
		for x, err := range f.store.Journal().Replay(ctx, e.ID, low, to) {
			if err != nil {
				return 0, err
			}
			if f.handedOverBefore(x.Offset()) {
				first = x.SeqNr + 1
			}
		}
		if first > 0 {
			return first, nil
		}
	}
	return 1, nil
}

// handedOverBefore reports whether o was handed over, or was handled before the position of the feed. What is before the floor was, unless it has
// become visible too late.
func (f missingEvents) handedOverBefore(o annals.Offset) bool {
	return f.handedOver.covers(o) || o.Compare(f.floor) <= 0 && o.Compare(f.handedOver.since) <= 0
}
