package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

var timeCases = []testCase{
	{id: "TIME-1", about: "times of an entity's events never go down", needs: needs(events, times), run: timesNeverGoDown},
	{id: "TIME-3", about: "times of a state's revisions never go down", needs: needs(states), run: stateTimesNeverGoDown},
	{id: "TIME-6", about: "imported times are kept in microseconds or Config.TimeUnit, UTC, and the receipt has the last event's; an event without one has the store's clock", needs: needs(events, eventTimes), run: importedTimes},
	{id: "TIME-7", about: "queries yield imported events in the order of their times", needs: needs(events, eventQueries, eventTimes), run: importedFeed},
	{id: "TIME-8", about: "an imported time of any age is kept, or is ErrInvalid and nothing is written", needs: needs(events, eventTimes), run: extremeTimes},
	{id: "TIME-10", about: "a snapshot in a year that is not stored is ErrInvalid, and bounds in any year choose by time", needs: needs(snapshots), run: extremeSnapshots},
	{id: "TIME-11", about: "a query after a time in any year yields what is after it", needs: needs(events, eventQueries), run: extremeAfter},
	{id: "TIME-12", about: "a Reset to a time in any year forgets what is after it", needs: needs(offsets), run: extremeResets},
	{id: "TIME-4", about: "a process with a slow clock that has read the events before gives the next ones no earlier time", needs: needs(events, times, slowClock), run: slowClockOfEvents},
	{id: "TIME-9", about: "a process with a slow clock that has the number of the last event from elsewhere writes none that queries show before it", needs: needs(events, times, eventQueries, slowClock), run: slowClockByReceipt},
	{id: "TIME-5", about: "a process with a slow clock that has read a state gives its next revision no earlier time", needs: needs(states, slowClock), run: slowClockOfStates},
}

func timesNeverGoDown(h *harness) {
	id, rounds := h.id(), h.volume(200, 40)
	var after annals.SeqNr
	var seen time.Time
	for i := range rounds {
		r := h.append(h.commit(id, after, h.batch(1+i%3)))
		if r.Time.Before(seen) {
			h.Errorf("time of the receipt for %d: got %v, want it not before %v", r.SeqNr, r.Time, seen)
		}
		after, seen = r.SeqNr, r.Time
	}
	h.wantRising(id, after, "")
	if last := h.events(id, after, after)[0]; !last.Time.Equal(seen) {
		h.Errorf("time of the last event: got %v, want %v as in its receipt", last.Time, seen)
	}
}

// wantRising checks that the times of the events 1 … last do not go down.
func (h *harness) wantRising(id annals.PersistenceID, last annals.SeqNr, when string) {
	h.Helper()
	var before annals.Event
	for _, e := range h.events(id, 1, last) {
		if e.Time.Before(before.Time) {
			h.Errorf("time of number %d%s: got %v, want it not before that of %d, %v", e.SeqNr, when, e.Time, before.SeqNr, before.Time)
		}
		before = e
	}
}

func slowClockByReceipt(h *harness) {
	s := h.slow()
	for _, read := range []annals.SeqNr{0, 1} { // what the process has read before
		id := h.id()
		if read > 0 {
			h.write(id, 0, int(read))
			if _, err := collect(s.Journal().Replay(h.ctx, id, 1, annals.MaxSeqNr)); err != nil {
				h.Fatalf("replay by a process with a slow clock: got error %v, want none", err)
			}
		}
		last := h.write(id, read, 2)
		for range 2 {
			r, err := h.send(h.ctx, s, h.commit(id, last, 1))
			if err != nil {
				h.Fatalf("append after %d by a process with a slow clock: got error %v, want none", last, err)
			}
			last = r.SeqNr
		}
		h.wantRising(id, h.write(id, last, 1), fmt.Sprintf(", after %d was read", read))
	}
}

// imported appends one event for each time.
func (h *harness) imported(id annals.PersistenceID, after annals.SeqNr, times ...time.Time) annals.Receipt {
	h.Helper()
	c := h.commit(id, after, len(times))
	for i, t := range times {
		c.Events[i].Time = t
	}
	return h.append(c)
}

func importedTimes(h *harness) {
	id := h.id()
	zone := time.FixedZone("two hours east", 2*60*60)
	given := []time.Time{
		time.Date(1999, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
		time.Date(2012, 2, 29, 1, 0, 0, 123_456_789, zone),
		time.Date(2012, 2, 29, 1, 0, 0, 123_457_000, zone),
		time.Date(2012, 2, 29, 1, 0, 0, 999_999_999, zone),
	}
	var after annals.SeqNr
	for len(given) > int(after) {
		times := given[after:][:h.batch(min(2, len(given)-int(after)))]
		r := h.imported(id, after, times...)
		after = r.SeqNr
		if want := given[after-1]; !r.Time.Equal(h.stored(want)) {
			h.Errorf("receipt of imported events up to %d: got time %v, want %v", after, r.Time, want)
		}
	}
	for i, e := range h.events(id, 1, after) {
		if want := h.stored(given[i]); e.Time != want {
			h.Errorf("number %d imported with the time %v: got %v, want %v", e.SeqNr, given[i], e.Time, want)
		}
	}
	mixed := h.commit(id, after, h.batch(2))
	if len(mixed.Events) == 2 {
		mixed.Events[0].Time = takenAt(1)
	}
	r := h.append(mixed)
	if after = r.SeqNr; !r.Time.After(takenAt(3)) || !h.events(id, after, after)[0].Time.Equal(r.Time) {
		h.Errorf("time of an event written without one behind those: got %+v, want that of the store's clock", r)
	}
	if !h.caps.Repeatable {
		return
	}
	c := h.commit(id, after, 1)
	c.Events[0].Time = takenAt(3)
	h.wantRepeated(c, h.append(c), "with an imported time")
}

// stored is t as the store keeps an imported time.
func (h *harness) stored(t time.Time) time.Time {
	return t.UTC().Truncate(cmp.Or(h.cfg.TimeUnit, time.Microsecond))
}

func extremeTimes(h *harness) {
	nanos := func(n int64) time.Time { return time.Unix(0, n) } // the bounds of 64 bits
	for _, given := range []time.Time{
		time.Unix(math.MinInt64, 0), time.Unix(math.MaxInt64/2, 0), time.UnixMicro(math.MinInt64), time.UnixMicro(math.MaxInt64),
		time.Date(0, 12, 31, 23, 59, 59, 999_999_999, time.UTC), time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(2, 1, 1, 0, 0, 0, 1, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC),
		nanos(math.MinInt64).Add(-1), nanos(math.MinInt64), nanos(math.MaxInt64), nanos(math.MaxInt64).Add(1),
		time.Unix(0, -1), time.Unix(0, 0), time.Date(5138, 11, 16, 9, 46, 40, 1_000_000, time.UTC),
	} {
		id := h.id()
		c := h.commit(id, 0, 1)
		c.Events[0].Time = given
		_, err := h.journal().Append(h.ctx, c)
		switch es := h.replay(id, 1, annals.MaxSeqNr); {
		case err != nil && (!errors.Is(err, annals.ErrInvalid) || len(es) > 0):
			h.Errorf("append of an event with the time %v: got error %v and then the events %s, want ErrInvalid and none", given, err, span(es))
		case err == nil && (len(es) != 1 || es[0].Time != h.stored(given)):
			h.Errorf("append of an event with the time %v: got %v, want that of one event, %v", given, es, h.stored(given))
		}
		if year := given.UTC().Year(); (year < 2 || year > 9999) && err == nil {
			h.Errorf("append of an event in the year %d: got no error, want ErrInvalid", year)
		}
	}
}

// Times that are before and after all others. Their microseconds or milliseconds are no numbers of 64 bits.
var (
	earliest = []time.Time{time.Unix(math.MinInt64/2, 0), time.UnixMicro(math.MinInt64).Add(-1), time.UnixMilli(math.MinInt64), time.Date(-300_000, 1, 1, 0, 0, 0, 0, time.UTC)}
	latest   = []time.Time{time.Unix(math.MaxInt64/2, 0), time.UnixMicro(math.MaxInt64).Add(1), time.UnixMilli(math.MaxInt64), time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC)}
)

func extremeSnapshots(h *harness) {
	id := h.id()
	h.snapshotFixture(id)
	for _, t := range slices.Concat(earliest, latest) {
		s := snapshotAt(id, 16)
		s.Time = t
		h.wantKind(h.store.Snapshots().Save(h.ctx, s), annals.ErrInvalid, "save a snapshot of the time %v", t)
	}
	for _, t := range earliest {
		h.wantSnapshot(id, annals.SnapshotCriteria{MinTime: t}, 15)
		h.wantSnapshot(id, annals.SnapshotCriteria{MaxTime: t}, 0)
		h.deleteSnapshots(id, annals.SnapshotCriteria{MaxTime: t})
		h.wantSnapshot(id, annals.SnapshotCriteria{}, 15)
	}
	for _, t := range latest {
		h.wantSnapshot(id, annals.SnapshotCriteria{MaxTime: t}, 15)
		h.wantSnapshot(id, annals.SnapshotCriteria{MinTime: t}, 0)
		h.deleteSnapshots(id, annals.SnapshotCriteria{MinTime: t, MaxTime: t})
		h.wantSnapshot(id, annals.SnapshotCriteria{}, 15)
	}
	h.deleteSnapshots(id, annals.SnapshotCriteria{MaxTime: latest[0]})
	h.wantSnapshot(id, annals.SnapshotCriteria{}, 0)
}

func extremeAfter(h *harness) {
	h.write(h.id(), 0, 2)
	for want, times := range map[int][]time.Time{2: earliest, 0: latest} {
		for _, t := range times {
			if es := h.queryEvents(annals.Filter{After: annals.Offset{Time: t}}, want); len(es) != want {
				h.Errorf("query events after %v: got %s, want %d", t, span(es), want)
			}
			newest, err := h.store.Query().Newest(h.ctx, annals.Filter{After: annals.Offset{Time: t}})
			if err != nil || (newest == annals.Offset{}) != (want == 0) {
				h.Errorf("newest event after %v: got %+v, %v", t, newest, err)
			}
		}
	}
}

func extremeResets(h *harness) {
	beyond := offsetAt("Thing|a", 1, 10)
	h.saveProgress(annals.Progress{Through: through(5), Offsets: []annals.Offset{beyond}})
	for _, t := range latest {
		h.reset(annals.SliceRange{}, annals.Offset{Time: t})
		h.wantHandled("p", beyond)
		if got := h.handledOf("p", "Thing|b"); got.Compare(through(5)) != 0 {
			h.Errorf("offset of %q after a reset to %v: got %+v, want %+v", "Thing|b", t, got, through(5))
		}
	}
	for _, t := range earliest {
		h.saveOffsets("p", beyond)
		h.reset(annals.SliceRange{}, annals.Offset{Time: t})
		if got := h.handledOf("p", "Thing|a"); got.Covers(offsetAt("Thing|a", 1, 0)) {
			h.Errorf("offset of %q after a reset to %v: got %+v, want one that covers nothing", "Thing|a", t, got)
		}
	}
}

func importedFeed(h *harness) {
	a, b, c := h.id(), h.id(), h.id()
	h.imported(a, 0, takenAt(1))
	h.imported(a, 1, takenAt(5))
	h.imported(a, 2, takenAt(9))
	h.imported(b, 0, takenAt(0))
	h.imported(b, 1, takenAt(5))
	h.imported(b, 2, takenAt(5))
	h.write(c, 0, 1) // the store's clock
	all := slices.Concat(h.replay(a, 1, annals.MaxSeqNr), h.replay(b, 1, annals.MaxSeqNr), h.replay(c, 1, annals.MaxSeqNr))
	slices.SortFunc(all, func(a, b annals.Event) int { return a.Offset().Compare(b.Offset()) })
	h.wantOffsets("query imported events", h.queryEvents(annals.Filter{}, len(all)), all)
	for i, e := range all {
		h.wantOffsets(fmt.Sprintf("query imported events after place %d", i+1), h.queryEvents(annals.Filter{After: e.Offset()}, len(all)-i-1), all[i+1:])
	}
}

func stateTimesNeverGoDown(h *harness) {
	id := h.id()
	var seen time.Time
	for after := range annals.SeqNr(h.volume(60, 15)) {
		r := h.put(id, after)
		if r.Time.Before(seen) {
			h.Errorf("time of revision %d: got %v, want it not before %v", r.SeqNr, r.Time, seen)
		}
		seen = r.Time
	}
	s, _, err := h.store.States().Get(h.ctx, id)
	if err != nil || !s.Time.Equal(seen) || s.Time.Location() != time.UTC {
		h.Errorf("time of the state: got %v, error %v, want %v as in its receipt", s.Time, err, seen)
	}
}

// slow is a store on the data of h.store whose clock is an hour slow.
func (h *harness) slow() annals.Store {
	h.Helper()
	s := h.cfg.SlowClock(h, h.store)
	h.Cleanup(func() { _ = s.Close() })
	return s
}

func slowClockOfEvents(h *harness) {
	for what, read := range map[string]func(s annals.Store, id annals.PersistenceID) error{
		"recovery": func(s annals.Store, id annals.PersistenceID) error {
			_, err := ability.Recover(h.ctx, s, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
			return err
		},
		"replay": func(s annals.Store, id annals.PersistenceID) error {
			_, err := collect(s.Journal().Replay(h.ctx, id, 1, annals.MaxSeqNr))
			return err
		},
	} {
		id, slow := h.id(), h.slow()
		last := h.writeSizes(id, 0, 1, 2)
		if err := read(slow, id); err != nil {
			h.Fatalf("%s: got error %v", what, err)
		}
		h.through(slow, func() { last = h.writeSizes(id, last, 1, 1) })
		h.wantRising(id, h.write(id, last, 1), ", after a "+what)
	}
}

func slowClockOfStates(h *harness) {
	id, slow := h.id(), h.slow()
	first := h.put(id, 0)
	if _, _, err := slow.States().Get(h.ctx, id); err != nil {
		h.Fatalf("get state: got error %v", err)
	}
	h.through(slow, func() {
		if second := h.put(id, 1); second.Time.Before(first.Time) {
			h.Errorf("time of revision 2: got %v, want it not before that of 1, %v", second.Time, first.Time)
		}
	})
}
