package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// filterCases are about annals.Filter.
var filterCases = []testCase{
	{id: "FILTER-1", about: "an invalid filter is ErrInvalid in every query", run: invalidFilters},
	{id: "FILTER-2", about: "all fields of a filter for events together", needs: needs(events, eventQueries), run: combinedEventFilters},
	{id: "FILTER-3", about: "all fields of a filter for states together", needs: needs(states, stateQueries), run: combinedStateFilters},
	{id: "FILTER-4", about: "imported events are older than Behind by their own times", needs: needs(events, eventQueries, eventTimes), run: importedHeldBack},
}

func invalidFilters(h *harness) {
	q := h.store.Query()
	ops := map[string]func(ctx context.Context, f annals.Filter) error{}
	if h.caps.EventQueries {
		ops["query events"] = func(ctx context.Context, f annals.Filter) error { _, err := collect(q.Events(ctx, f)); return err }
		ops["query newest"] = func(ctx context.Context, f annals.Filter) error { _, err := q.Newest(ctx, f); return err }
	}
	if h.caps.StateQueries {
		ops["query states"] = func(ctx context.Context, f annals.Filter) error { _, err := collect(q.States(ctx, f)); return err }
	}
	if h.caps.SnapshotQueries {
		ops["query snapshots"] = func(ctx context.Context, f annals.Filter) error { _, err := collect(q.Snapshots(ctx, f)); return err }
	}
	if w, err := ability.Of[ability.Watcher](h.store); err == nil && h.caps.EventQueries {
		ops["watch"] = func(ctx context.Context, f annals.Filter) error { _, err := w.Watch(ctx, f); return err }
	}
	if h.caps.IDQueries {
		for _, entityType := range []string{"Thing|", "\xff"} {
			_, err := collect(q.IDs(h.ctx, entityType, ""))
			h.wantNamed(err, annals.ErrInvalid, operation{name: "query ids"}, fmt.Sprintf("of the type %q", entityType))
			if s, err := ability.Of[ability.Scanner](h.store); err == nil {
				_, err := collect(s.Scan(h.ctx, entityType, ""))
				h.wantNamed(err, annals.ErrInvalid, operation{name: "scan"}, fmt.Sprintf("of the type %q", entityType))
			}
		}
	}
	wrong := []annals.Filter{
		{Slices: annals.SliceRange{From: -1, To: 5}},
		{Slices: annals.SliceRange{From: 5, To: 5}},
		{Slices: annals.SliceRange{From: 5, To: 4}},
		{Slices: annals.SliceRange{From: 0, To: annals.SliceCount + 1}},
		{Slices: annals.SliceRange{From: annals.SliceCount, To: 2*annals.SliceCount + 1}},
		{Slices: annals.SliceRange{From: 2 * annals.SliceCount, To: 2*annals.SliceCount + 1}},
		{Limit: -1},
		{Behind: -1},
		{Type: "Thing|"},
		{Type: "\xff"},
	}
	if h.caps.TagQueries {
		wrong = append(wrong, annals.Filter{Tag: "a\x00"})
	}
	for name, run := range ops {
		for _, f := range wrong {
			h.wantNamed(run(h.ctx, f), annals.ErrInvalid, operation{name: name}, fmt.Sprintf("with the filter %+v", f))
		}
		if err := run(h.ctx, annals.Filter{}); err != nil {
			h.Errorf("%s with the zero filter: got error %v, want none", name, err)
		}
	}
}

// filters are combinations of all fields, with After zero or the offset given.
func (h *harness) filters(after annals.Offset) (all []annals.Filter) {
	tags, halves := []string{""}, []annals.SliceRange{annals.SliceRanges(2)[0], annals.SpreadRanges(2)[1]}
	if h.caps.TagQueries {
		tags = append(tags, "green")
	}
	step, n := h.volume(1, 5), 0 // each value of each field is in every fifth combination too
	for _, entityType := range []string{"", "Thing", "Thin"} {
		for _, r := range []annals.SliceRange{{}, halves[0], halves[1]} {
			for _, tag := range tags {
				for _, after := range []annals.Offset{{}, after} {
					for _, limit := range []int{0, 3} {
						for _, keys := range []bool{false, true} {
							if n++; n%step == 0 {
								all = append(all, annals.Filter{Type: entityType, Slices: r, Tag: tag, After: after, Limit: limit, KeysOnly: keys})
							}
						}
					}
				}
			}
		}
	}
	return append(all, annals.Filter{Type: "Thing", Slices: halves[0], Behind: time.Hour})
}

// fits reports whether f chooses an item, leaving out Limit. The suite's items are younger than any Behind but 0.
func fits(f annals.Filter, o annals.Offset, tags []string) bool {
	return (f.Type == "" || f.Type == o.ID.Type()) && f.Slices.Contains(o.ID.Slice()) && (f.Tag == "" || slices.Contains(tags, f.Tag)) &&
		f.After.Compare(o) < 0 && f.Behind == 0
}

// chosen are the items of all that f chooses, in their order.
func chosen[T any](f annals.Filter, all []T, offset func(T) annals.Offset, tags func(T) []string) []T {
	found := slices.DeleteFunc(slices.Clone(all), func(v T) bool { return !fits(f, offset(v), tags(v)) })
	if f.Limit > 0 {
		found = found[:min(f.Limit, len(found))]
	}
	return found
}

func combinedEventFilters(h *harness) {
	if newest, err := h.store.Query().Newest(h.ctx, annals.Filter{}); err != nil || newest != (annals.Offset{}) {
		h.Errorf("newest offset of an empty store: got %+v, error %v, want none", newest, err)
	}
	var all []annals.Event
	for i := range 10 {
		id := h.idOf([]string{"Thing", "Thin"}[i%2])
		for after := range annals.SeqNr(3) {
			c := decorate(h.commit(id, after, 1))
			if (int(after)+i)%3 == 0 {
				c.Events[0].Tags = nil
			}
			h.append(c)
		}
		all = append(all, h.replay(id, 1, annals.MaxSeqNr)...)
	}
	slices.SortFunc(all, func(a, b annals.Event) int { return a.Offset().Compare(b.Offset()) })
	h.queryEvents(annals.Filter{}, len(all)) // wait until all are visible
	tags := func(e annals.Event) []string { return e.Tags }
	for _, f := range h.filters(all[len(all)/2].Offset()) {
		want := chosen(f, all, annals.Event.Offset, tags)
		h.wantChosenEvents(f, h.queryEvents(f, len(want)), want)

		unlimited, newest := f, annals.Offset{}
		unlimited.Limit = 0
		if fitting := chosen(unlimited, all, annals.Event.Offset, tags); len(fitting) > 0 {
			newest = fitting[len(fitting)-1].Offset()
		}
		if got, err := h.store.Query().Newest(h.ctx, f); err != nil || got.Compare(newest) != 0 {
			h.Errorf("newest offset that fits %+v: got %+v, error %v, want %+v", f, got, err, newest)
		}
	}
}

// wantChosenEvents checks that got are the events that f chooses. With KeysOnly payloads and metadata may be left out.
func (h *harness) wantChosenEvents(f annals.Filter, got, want []annals.Event) {
	h.Helper()
	if f.KeysOnly {
		want = slices.Clone(want)
		for i := range min(len(got), len(want)) {
			if len(got[i].Data) == 0 {
				want[i].Payload, got[i].Payload, want[i].Metadata, got[i].Metadata = annals.Payload{}, annals.Payload{}, annals.Payload{}, annals.Payload{}
			}
		}
	}
	h.wantOffsets(fmt.Sprintf("query events %+v", f), got, want)
}

func combinedStateFilters(h *harness) {
	var all []annals.State
	for i := range 16 {
		id := h.idOf([]string{"Thing", "Thin"}[i%2])
		w := stateWrite(id, 0)
		if h.caps.Tags && i%3 != 0 {
			w.Tags = []string{"apple", "green"}
		}
		h.putState(w)
		if i%5 == 0 && h.caps.DeletesStates {
			h.deleteState(id, 1)
		}
		s, _, err := h.store.States().Get(h.ctx, id)
		if err != nil {
			h.Fatalf("state of %q: got error %v, want none", id, err)
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b annals.State) int { return a.Offset().Compare(b.Offset()) })
	h.queryStates(annals.Filter{}, len(all)) // wait until all are visible
	for _, f := range h.filters(all[len(all)/2].Offset()) {
		want := chosen(f, all, annals.State.Offset, func(s annals.State) []string { return s.Tags })
		got := h.queryStates(f, len(want))
		if f.KeysOnly {
			for i := range min(len(got), len(want)) {
				want[i].Payload, got[i].Payload = annals.Payload{}, annals.Payload{}
			}
		}
		h.wantStates(fmt.Sprintf("query states %+v", f), got, want)
	}
}

func importedHeldBack(h *harness) {
	var imported []annals.Event
	for i := range 4 {
		id := h.id()
		c := h.commit(id, 0, h.batch(2))
		for n := range c.Events {
			c.Events[n].Time = takenAt(annals.SeqNr(10*i + n))
		}
		last := h.append(c).SeqNr
		imported = append(imported, h.events(id, 1, last)...)
		h.write(id, last, 1)
	}
	slices.SortFunc(imported, func(a, b annals.Event) int { return a.Offset().Compare(b.Offset()) })
	f := annals.Filter{Behind: time.Hour}
	h.wantOffsets("query events older than an hour", h.queryEvents(f, len(imported)), imported)
	newest, err := h.store.Query().Newest(h.ctx, f)
	if want := imported[len(imported)-1].Offset(); err != nil || newest.Compare(want) != 0 {
		h.Errorf("newest offset older than an hour: got %+v, error %v, want %+v", newest, err, want)
	}
	f.Type, f.Slices = "Thing", annals.SliceRange{From: 0, To: 512}
	want := slices.DeleteFunc(imported, func(e annals.Event) bool { return e.ID.Slice() >= 512 })
	h.wantOffsets("query events of half the slices older than an hour", h.queryEvents(f, len(want)), want)
}
