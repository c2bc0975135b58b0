package akka0

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/akkakeys"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// ahead is how many requests of 100 events a replay sends before the caller asks for their events, as many as the plugin does.
const ahead = 10

// pageEvents is how many events a part of a replay has.
const pageEvents = 100

// reader is a driver.Reader of an entity. There are no snapshots. Single events can be deleted, and the plugin leaves numbers unused, so
// numbers without an event may be passed over. But a DeleteTo during the read must be noticed. It deletes in ascending order: as long as an
// event is there, no DeleteTo has deleted one after it.
type reader struct {
	*journal
	id  annals.PersistenceID
	all bool // with events that are marked as deleted

	messages []Message // of the part that was read last
	events   []annals.Event
	first    annals.SeqNr // the first event that was read
	before   annals.SeqNr // the last event of the parts before
	read     annals.SeqNr // the last number that was read
	holes    []hole       // after before, in their order
	sure     annals.SeqNr // no DeleteTo has deleted events up to here after one that was handed over, before they were read
}

// hole is numbers without an event to show.
type hole struct {
	from, to annals.SeqNr
	marked   bool // the events are there, and marked as deleted
}

func (r *reader) Begin(context.Context, bool) (driver.Beginning, error) {
	return driver.Beginning{Settled: annals.MaxSeqNr}, nil
}

// Rows is driver.Reader. The last number is read before the events. When events at the beginning have been deleted, that can have happened
// after more events were stored. Then these are read, too: a read that shows a delete shows what was stored before the delete.
func (r *reader) Rows(ctx context.Context, from, to annals.SeqNr) iter.Seq2[driver.Part, error] {
	return func(yield func(driver.Part, error) bool) {
		r.read = from - 1
		for {
			from := r.read + 1
			last, err := r.LastSeqNr(ctx, r.id)
			if err == nil && from <= min(to, last) && !r.upTo(ctx, min(to, last), yield) {
				return
			}
			higher := false
			if missing := from <= r.read && (r.first == 0 || r.first > from); err == nil && missing && last < to {
				higher, err = r.counts(ctx, r.high(r.id, last+1), last+1)
			}
			if higher && err == nil {
				continue
			}
			yield(driver.Part{Last: last}, err)
			return
		}
	}
}

// upTo yields the next events, up to a number. Those before an error are yielded, too. It returns false when the read is to end.
func (r *reader) upTo(ctx context.Context, to annals.SeqNr, yield func(driver.Part, error) bool) bool {
	var failed error
	for s, err := range r.stored(ctx, r.id, r.read+1, to) {
		var m Message
		if err == nil {
			m, err = r.message(r.id, s.n, s.item)
		}
		if failed = err; err != nil {
			break
		}
		r.leave(s.n-1, false)
		if m.Deleted && !r.all {
			r.leave(s.n, true)
			continue
		}
		r.messages, r.events, r.read = append(r.messages, m), append(r.events, m.Event), s.n
		if r.first == 0 {
			r.first = s.n
		}
		if len(r.events) == pageEvents && !r.page(yield) {
			return false
		}
	}
	if failed == nil {
		r.leave(to, false)
	}
	if len(r.events) > 0 && !r.page(yield) {
		return false
	}
	if failed != nil {
		yield(driver.Part{}, failed)
	}
	return failed == nil
}

// leave notes that the numbers after r.read, up to to, have no event to show.
func (r *reader) leave(to annals.SeqNr, marked bool) {
	if to <= r.read {
		return
	}
	if i := len(r.holes) - 1; i >= 0 && r.holes[i].to == r.read && r.holes[i].marked == marked {
		r.holes[i].to = to
	} else {
		r.holes = append(r.holes, hole{r.read + 1, to, marked})
	}
	r.read = to
}

// page yields the events that were read since the last part.
func (r *reader) page(yield func(driver.Part, error) bool) bool {
	if !yield(driver.Part{Events: r.events}, nil) {
		return false
	}
	r.before = r.events[len(r.events)-1].SeqNr
	r.messages, r.events = r.messages[:0], r.events[:0]
	r.holes = slices.DeleteFunc(r.holes, func(h hole) bool { return h.to < r.before })
	return true
}

// Gap is driver.Reader. One look at the event before a gap is enough for all numbers that were read before that look. In front of all
// events, a low counter tells that a DeleteTo has come to its number.
func (r *reader) Gap(ctx context.Context, from, to annals.SeqNr) (p driver.Part, err error) {
	i := slices.IndexFunc(r.holes, func(h hole) bool { return from <= h.to })
	if i < 0 || r.holes[i].from > from {
		return p, nil
	}
	h := r.holes[i]
	p = driver.Part{Unused: min(h.to, to), Proven: h.marked}
	before := r.before
	for _, e := range r.events {
		if e.SeqNr < from {
			before = e.SeqNr
		}
	}
	switch {
	case before == 0 && !h.marked:
		deleted, err := r.counts(ctx, r.low(r.id, h.to), h.to)
		if deleted {
			p.Deleted = h.to
		} else if err == nil { // a DeleteTo that has not ended, or numbers that are unused; those before were deleted
			var low []annals.SeqNr
			_, low, err = r.Read(ctx, r.x, r.id, akkakeys.Low)
			p.Deleted = min(slices.Max(append(low, 0)), h.to)
		}
		return p, err
	case before > 0 && r.sure < from:
		it, _, err := r.x.Get(ctx, plan.Get{Table: r.Table, Key: r.event(r.id, before)})
		if err == nil && (it[payloadName] == nil || marked(it) && !r.all) {
			p.Deleted = to
		}
		r.sure = r.read
		return p, err
	}
	return p, nil
}

// counts reports whether a counter has number n, or a higher one.
func (r *reader) counts(ctx context.Context, counter plan.Item, n annals.SeqNr) (bool, error) {
	it, _, err := r.x.Get(ctx, plan.Get{Table: r.Table, Key: counter})
	number, _ := plan.Number(it, numberName)
	return annals.SeqNr(number) >= n, err
}

// stored is the item of an event.
type stored struct {
	n    annals.SeqNr
	item plan.Item
}

// mostEmpty is how many numbers in a row are looked at that have no event.
const mostEmpty = 10_000

// stored yields the items of the events from … to. When the first numbers have no events, as after SkipTo and after deletes, it looks for the
// first event. After an event there are never so many numbers without one: a counter is wrong.
func (j *journal) stored(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[stored, error] {
	return func(yield func(stored, error) bool) {
		for begun := false; from <= to; {
			n, filled := from-1, from-1
			for it, err := range j.x.GetEach(ctx, j.Table, j.events(id, numbers(from, to)), ahead) {
				if n++; err != nil || it[payloadName] != nil {
					if !yield(stored{n, it}, err) || err != nil {
						return
					}
					filled, begun = n, true
				}
				if n-filled == mostEmpty {
					break
				}
			}
			if n == to {
				return
			}
			if begun {
				yield(stored{}, &annals.Error{Kind: annals.ErrCorrupt, Err: &ability.Damage{Code: ability.Head, From: filled + 1, To: n, Err: fmt.Errorf("table %q: a counter has number %d or a higher one, and there are no events %d to %d", j.Table, to, filled+1, n)}})
				return
			}
			first, found, err := j.firstOf(ctx, id, n+1, to)
			if err != nil {
				yield(stored{}, err)
			}
			if !found || err != nil {
				return
			}
			from = first
		}
	}
}

// firstOf finds the first event of numbers from … to, of which those at the beginning have no events.
func (j *journal) firstOf(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) (first annals.SeqNr, found bool, err error) {
	for from <= to {
		middle := from + (to-from)/2
		it, _, err := j.x.Get(ctx, plan.Get{Table: j.Table, Key: j.event(id, middle)})
		switch {
		case err != nil:
			return 0, false, err
		case it[payloadName] != nil:
			first, found, to = middle, true, middle-1
		case middle == annals.MaxSeqNr:
			return first, found, nil
		default:
			from = middle + 1
		}
	}
	return first, found, nil
}

// at yields the items of those of the numbers that have an event.
func (j *journal) at(ctx context.Context, id annals.PersistenceID, numbers []annals.SeqNr) iter.Seq2[stored, error] {
	i := -1
	return plan.Picked(j.x.GetEach(ctx, j.Table, j.events(id, slices.Values(numbers)), 1), func(it plan.Item) (stored, bool, error) {
		i++
		return stored{numbers[i], it}, it[payloadName] != nil, nil
	})
}
