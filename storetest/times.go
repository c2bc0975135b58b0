package storetest

import (
	"time"

	"github.com/annals-go/annals"
)

var timeCases = []testCase{
	{id: "TIME-1", about: "times of an entity's events never go down", needs: needs(events), run: timesNeverGoDown},
	{id: "TIME-2", about: "the writer's time of an event is kept", needs: needs(events, eventTimes), run: writersTime},
	{id: "TIME-3", about: "times of a state's revisions never go down", needs: needs(states), run: stateTimesNeverGoDown},
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
	var before annals.Event
	for _, e := range h.replay(id, 1, annals.MaxSeqNr) {
		if e.Time.Before(before.Time) {
			h.Errorf("time of number %d: got %v, want it not before that of %d, %v", e.SeqNr, e.Time, before.SeqNr, before.Time)
		}
		before = e
	}
	if !before.Time.Equal(seen) {
		h.Errorf("time of the last event: got %v, want %v as in its receipt", before.Time, seen)
	}
}

func writersTime(h *harness) {
	id := h.id()
	want := []time.Time{takenAt(1), takenAt(1), takenAt(2), takenAt(50)}
	var after annals.SeqNr
	for _, t := range want {
		c := h.commit(id, after, 1)
		c.Events[0].Time = t
		after = h.append(c).SeqNr
	}
	for i, e := range h.replay(id, 1, annals.MaxSeqNr) {
		if !e.Time.Equal(want[i]) {
			h.Errorf("time of number %d, written with one: got %v, want %v", e.SeqNr, e.Time, want[i])
		}
	}
	h.append(h.commit(id, after, 1))
	if es := h.replay(id, after+1, annals.MaxSeqNr); len(es) != 1 || !es[0].Time.After(want[len(want)-1]) {
		h.Errorf("an event written without a time behind those: got %s, want one with the store's clock", span(es))
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
