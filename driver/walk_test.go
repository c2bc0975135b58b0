package driver_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// rows is a table of one entity, and a Reader of it. Before each of its requests, steps of other processes run.
type rows struct {
	last, deleted annals.SeqNr // deleted is a mark: rows up to it are removed after it is set
	events        map[annals.SeqNr]bool
	snapshots     []annals.SeqNr // the newest one
	uncovered     annals.SeqNr   // the number up to which events were deleted when no snapshot had them

	page     int  // numbers that one request reads
	together bool // a recovery reads the snapshot and the first page at one moment
	lagging  bool // rows of the page that is read next are as of the page before, as in reads ahead

	requests int
	schedule []int // before which request each of steps runs
	steps    []func(*rows)
}

// request begins a request of the Reader.
func (r *rows) request() {
	r.requests++
	for len(r.schedule) > 0 && r.schedule[0] < r.requests {
		r.steps[0](r)
		r.steps, r.schedule = r.steps[1:], r.schedule[1:]
	}
}

func (r *rows) append(n annals.SeqNr) {
	for range n {
		r.last++
		r.events[r.last] = true
	}
}

func (r *rows) mark(to annals.SeqNr) {
	r.deleted = max(r.deleted, min(to, r.last))
	if len(r.snapshots) == 0 || r.snapshots[0] < r.deleted {
		r.uncovered = r.deleted
	}
}

func (r *rows) remove() {
	for n := range r.events {
		if n <= r.deleted {
			delete(r.events, n)
		}
	}
}

func (r *rows) save(n annals.SeqNr) { r.snapshots = []annals.SeqNr{n} }

func (r *rows) Begin(context.Context, bool) (b driver.Beginning, err error) {
	r.request()
	if len(r.snapshots) > 0 {
		b.Found, b.Snapshot.SeqNr = true, r.snapshots[0]
	}
	if r.together {
		first := r.read(b.Snapshot.SeqNr+1, annals.MaxSeqNr)
		b.AtOnce = true
		b.Rows = r.pages(b.Snapshot.SeqNr+1, annals.MaxSeqNr, &first)
	}
	return b, nil
}

func (r *rows) Rows(_ context.Context, from, to annals.SeqNr) iter.Seq2[driver.Part, error] {
	return r.pages(from, to, nil)
}

func (r *rows) pages(from, to annals.SeqNr, first *driver.Part) iter.Seq2[driver.Part, error] {
	return func(yield func(driver.Part, error) bool) {
		var ahead *driver.Part
		for {
			var p driver.Part
			switch {
			case first != nil:
				p, first = *first, nil
			case ahead != nil:
				p = *ahead
			default:
				r.request()
				p = r.read(from, to)
			}
			full := len(p.Events) == r.page
			if full {
				from = p.Events[len(p.Events)-1].SeqNr + 1
			}
			if ahead = nil; full && r.lagging {
				next := r.read(from, to)
				ahead = &next
			}
			if !full && r.lagging {
				p.Last, p.Deleted = r.last, r.deleted // of a later moment
			}
			if !yield(p, nil) || !full {
				return
			}
		}
	}
}

// read reads a page at one moment.
func (r *rows) read(from, to annals.SeqNr) (p driver.Part) {
	n := from
	for ; n <= min(to, r.last) && len(p.Events) < r.page; n++ {
		if r.events[n] {
			p.Events = append(p.Events, annals.Event{SeqNr: n})
		}
	}
	if len(p.Events) < r.page {
		p.Last = r.last
	}
	return p
}

func (r *rows) Gap(_ context.Context, from, to annals.SeqNr) (p driver.Part, err error) {
	r.request()
	p = driver.Part{Deleted: r.deleted}
	for n := from; n <= to; n++ {
		if r.events[n] && n > r.deleted {
			p.Events = append(p.Events, annals.Event{SeqNr: n})
		}
	}
	return p, nil
}

// everyOrder calls check with the table in every order of the steps and the requests of a read.
func everyOrder(t *testing.T, steps []func(*rows), check func(r *rows) error) {
	t.Helper()
	const requests = 6
	schedule := make([]int, len(steps))
	var place func(i, from int)
	place = func(i, from int) {
		if i < len(steps) {
			for at := from; at <= requests; at++ {
				schedule[i] = at
				place(i+1, at)
			}
			return
		}
		for _, together := range []bool{false, true} {
			for _, lagging := range []bool{false, true} {
				r := &rows{events: map[annals.SeqNr]bool{}, page: 2, together: together, lagging: lagging}
				r.append(5)
				r.schedule, r.steps = slices.Clone(schedule), slices.Clone(steps)
				if err := check(r); err != nil {
					t.Errorf("together %t, lagging %t, steps before the requests %v: %v", together, lagging, schedule, err)
				}
			}
		}
	}
	place(0, 0)
}

// histories are what other processes do to an entity with five events.
var histories = map[string][]func(*rows){
	"appends":        {func(r *rows) { r.append(1) }, func(r *rows) { r.append(2) }},
	"a delete":       {func(r *rows) { r.mark(3) }, (*rows).remove, func(r *rows) { r.append(1) }},
	"a whole delete": {func(r *rows) { r.mark(9) }, (*rows).remove, func(r *rows) { r.append(2) }},
	"retention": {func(r *rows) { r.save(3) }, func(r *rows) { r.mark(3) }, (*rows).remove, func(r *rows) { r.append(1) },
		func(r *rows) { r.save(5); r.mark(5); r.remove() }},
	"a snapshot behind deletes": {func(r *rows) { r.save(2); r.mark(4); r.remove() }, func(r *rows) { r.append(1) }, func(r *rows) { r.save(6); r.mark(6); r.remove() }},
}

func TestReplayInEveryOrder(t *testing.T) {
	t.Parallel()
	for name, steps := range histories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyOrder(t, steps, func(r *rows) error {
				for from := range annals.SeqNr(4) {
					r := r.clone()
					acked, seen := r.last, annals.SeqNr(0)
					for e, err := range driver.Replay(t.Context(), r, from+1, annals.MaxSeqNr) {
						if errors.Is(err, annals.ErrTruncated) && seen > 0 && r.deleted > seen {
							acked = 0
							break
						}
						if err != nil {
							return err
						}
						if seen > 0 && e.SeqNr != seen+1 || seen == 0 && e.SeqNr > from+1 && r.deleted < e.SeqNr-1 {
							return fmt.Errorf("replay from %d: event %d after %d", from+1, e.SeqNr, seen)
						}
						seen = e.SeqNr
					}
					if max(seen, r.deleted) < acked {
						return fmt.Errorf("replay from %d ends with %d of %d", from+1, seen, acked)
					}
				}
				return nil
			})
		})
	}
}

func TestRecoverInEveryOrder(t *testing.T) {
	t.Parallel()
	for name, steps := range histories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyOrder(t, steps, func(r *rows) error {
				acked, covered := r.last, annals.SeqNr(0)
				var gap, first annals.SeqNr // the last number of a gap that no snapshot covers; the first event
				last, err := driver.RecoverFrom(t.Context(), r, func(s annals.Snapshot) error {
					covered, gap, first = s.SeqNr, 0, 0
					return nil
				}, func(e annals.Event) error {
					if e.SeqNr != covered+1 {
						gap = e.SeqNr - 1
					}
					if covered = e.SeqNr; first == 0 {
						first = covered
					}
					return nil
				})
				switch {
				case errors.Is(err, annals.ErrTruncated) && len(r.snapshots) == 0 && r.deleted > 0:
					return nil
				case err != nil:
					return err
				case gap > r.uncovered || gap >= first && gap > 0:
					return fmt.Errorf("events up to %d are missing", gap)
				case last < acked || last > covered && last > r.uncovered:
					return fmt.Errorf("recovered to %d, the last number is %d", covered, last)
				}
				return nil
			})
		})
	}
}

func (r *rows) clone() *rows {
	c := *r
	c.events = maps.Clone(r.events)
	c.schedule, c.steps = slices.Clone(r.schedule), slices.Clone(r.steps)
	return &c
}

// Whatever row is lost, a read is complete, or ErrCorrupt. What a mark covers may be missing.
func TestLostRow(t *testing.T) {
	t.Parallel()
	for lost := annals.SeqNr(1); lost <= 7; lost++ {
		for deleted := range annals.SeqNr(8) {
			for saved := range annals.SeqNr(8) {
				for _, together := range []bool{false, true} {
					r := &rows{events: map[annals.SeqNr]bool{}, page: 2, together: together}
					r.append(7)
					if saved > 0 {
						r.save(saved)
					}
					r.mark(deleted)
					r.remove()
					delete(r.events, lost)
					complete := saved
					last, err := driver.RecoverFrom(t.Context(), r, func(annals.Snapshot) error { return nil }, func(annals.Event) error { complete++; return nil })
					complete += max(deleted-saved, 0)
					if corrupt := errors.Is(err, annals.ErrCorrupt); corrupt != (lost > max(deleted, saved)) || !corrupt && (err != nil || last != 7 || complete != 7) {
						t.Errorf("event %d lost, %d deleted, snapshot %d, together %t: recovered %d, last number %d, %v", lost, deleted, saved, together, complete, last, err)
					}
					err = nil
					for _, err = range driver.Replay(t.Context(), r, 1, annals.MaxSeqNr) {
						continue
					}
					if errors.Is(err, annals.ErrCorrupt) != (lost > deleted) {
						t.Errorf("event %d lost, %d deleted: replay %v", lost, deleted, err)
					}
				}
			}
		}
	}
}

// parts is a Reader of nothing but these parts.
type parts []driver.Part

func (parts) Begin(context.Context, bool) (b driver.Beginning, err error) { return b, nil }

func (ps parts) Rows(context.Context, annals.SeqNr, annals.SeqNr) iter.Seq2[driver.Part, error] {
	return func(yield func(driver.Part, error) bool) {
		for _, p := range ps {
			if !yield(p, nil) {
				return
			}
		}
	}
}

func (parts) Gap(context.Context, annals.SeqNr, annals.SeqNr) (p driver.Part, err error) {
	return p, nil
}

// What is deleted before the greatest number does not matter once its event was handed over.
func TestGreatestNumber(t *testing.T) {
	t.Parallel()
	r := parts{{Events: []annals.Event{{SeqNr: annals.MaxSeqNr}}}, {Deleted: annals.MaxSeqNr - 1}}
	got := annals.SeqNr(0)
	for e, err := range driver.Replay(t.Context(), r, annals.MaxSeqNr, annals.MaxSeqNr) {
		if err != nil {
			t.Fatal(err)
		}
		got = e.SeqNr
	}
	if got != annals.MaxSeqNr {
		t.Errorf("event %d", got)
	}
}
