package storetest

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/annals-go/annals"
)

var queryCases = []testCase{
	{id: "Q-G17", about: "events by tag, with id, number and payload, also after an offset, exclusive", needs: needs(events, eventQueries, tags, tagQueries), run: eventsByTag},
	{id: "Q-G20", about: "a slow loop body loses no events", needs: needs(events, eventQueries), run: slowReader},
	{id: "Q-P1", about: "the ids of 101 entities with six events each", needs: needs(events, idQueries), run: idsOfMany},
	{id: "Q-P2", about: "ids after an id, in the store's order", needs: needs(events, idQueries), run: idsBehind},
	{id: "QUERY-1", about: "events of all entities in the order of Offset, each once", needs: needs(events, eventQueries), run: eventsInOrder},
	{id: "QUERY-3", about: "events by ranges of slices, which together are all events", needs: needs(events, eventQueries), run: eventsBySlices},
	{id: "QUERY-4", about: "pages of any size that end between events of the same time lose nothing", needs: needs(events, eventQueries), run: pagesOfEvents},
	{id: "QUERY-8", about: "deleted events are not found, all others are", needs: needs(events, eventQueries), run: queryBehindDelete},
	{id: "QUERY-9", about: "the body of a query may append, and break off", needs: needs(events, eventQueries), run: appendWithinQuery},
	{id: "QUERY-10", about: "ids of entities that have a state and no events, deleted or not", needs: needs(events, states, idQueries, deletesStates), run: idsOfStates},
	{id: "QUERY-11", about: "ids of entities whose events are deleted", needs: needs(events, idQueries), run: idsOfDeleted},
	{id: "QUERY-12", about: "ids without those of the library, unless their type is asked for", needs: needs(events, states, idQueries), run: idsOfTheLibrary},
	{id: "QUERY-20", about: "the newest state of each entity, tombstones included, in the order of Offset", needs: needs(states, stateQueries, deletesStates), run: newestStates},
	{id: "QUERY-21", about: "states after an offset, and by page", needs: needs(states, stateQueries, deletesStates), run: pagesOfStates},
}

// queryEvents queries events by f. Where events may become visible late it queries again until there are want events, for at most five seconds.
// With a negative want it queries once.
func (h *harness) queryEvents(f annals.Filter, want int) []annals.Event {
	h.Helper()
	return query(h, fmt.Sprintf("query events %+v", f), want, func() ([]annals.Event, error) { return collect(h.store.Query().Events(h.ctx, f)) })
}

func (h *harness) queryStates(f annals.Filter, want int) []annals.State {
	h.Helper()
	return query(h, fmt.Sprintf("query states %+v", f), want, func() ([]annals.State, error) { return collect(h.store.Query().States(h.ctx, f)) })
}

func (h *harness) queryIDs(entityType string, after annals.PersistenceID, want int) []annals.PersistenceID {
	h.Helper()
	return query(h, fmt.Sprintf("query ids of type %q after %q", entityType, after), want, func() ([]annals.PersistenceID, error) {
		return collect(h.store.Query().IDs(h.ctx, entityType, after))
	})
}

func query[T any](h *harness, did string, want int, read func() ([]T, error)) []T {
	h.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; runtime.Gosched() {
		found, err := read()
		if err != nil {
			h.Fatalf("%s: got error %v after %d, want none", did, err, len(found))
		}
		if want < 0 || len(found) == want || h.caps.Lateness == 0 || time.Now().After(deadline) {
			return found
		}
	}
}

// population writes events of several entities in turn, in commits of several sizes. It returns the events as replays yield them, in the order
// of Offset.
func (h *harness) population(entityTypes []string, entities, rounds int) (all []annals.Event) {
	h.Helper()
	last := map[annals.PersistenceID]annals.SeqNr{}
	var ids []annals.PersistenceID
	for i := range entities {
		ids = append(ids, h.idOf(entityTypes[i%len(entityTypes)]))
	}
	for round := range rounds {
		for i, id := range ids {
			last[id] = h.append(h.commit(id, last[id], h.batch(1+(round*7+i*3)%5))).SeqNr
		}
	}
	for _, id := range ids {
		all = append(all, h.replay(id, 1, annals.MaxSeqNr)...)
	}
	slices.SortFunc(all, func(a, b annals.Event) int { return a.Offset().Compare(b.Offset()) })
	return all
}

// wantItems checks that got has the items of want, in the same order. text says what is compared.
func wantItems[T any](h *harness, did string, got, want []T, text func(T) string) {
	h.Helper()
	if len(got) != len(want) {
		h.Errorf("%s: got %d, want %d", did, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if g, w := text(got[i]), text(want[i]); g != w {
			h.Errorf("%s: got at place %d %s, want %s", did, i+1, g, w)
			return
		}
	}
}

// placed is an Offset for a message.
func placed(o annals.Offset) string {
	return fmt.Sprintf("number %d of %q at %s", o.SeqNr, o.ID, o.Time.UTC().Format(time.RFC3339Nano))
}

func (h *harness) wantOffsets(did string, got, want []annals.Event) {
	h.Helper()
	wantItems(h, did, got, want, func(e annals.Event) string {
		return fmt.Sprintf("%s with %s, tags %q and metadata %s", placed(e.Offset()), show(e.Payload), slices.Sorted(slices.Values(e.Tags)), show(e.Metadata))
	})
}

// wantIDs checks that a query yields these ids, once each, in any order.
func (h *harness) wantIDs(entityType string, want []annals.PersistenceID) []annals.PersistenceID {
	h.Helper()
	got := h.queryIDs(entityType, "", len(want))
	h.wantEqual(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)), "ids of type %q", entityType)
	return got
}

// manyIDs writes one batch of six to each of n entities.
func (h *harness) manyIDs(entityType string, n int) (ids []annals.PersistenceID) {
	h.Helper()
	for range n {
		ids = append(ids, h.idOf(entityType))
		h.writeSizes(ids[len(ids)-1], 0, 6)
	}
	return ids
}

func idsOfMany(h *harness) {
	things := h.manyIDs("Thing", 101)
	others := h.manyIDs("Thin", 3)
	h.wantIDs("Thing", things)
	h.wantIDs("Thin", others)
	h.wantIDs("None", nil)
	h.wantIDs("", append(things, others...))
}

func idsBehind(h *harness) {
	written := h.manyIDs("Thing", 120)
	for _, entityType := range []string{"Thing", ""} {
		all := h.wantIDs(entityType, written)
		for i := 0; i < len(all); i += 17 {
			h.wantEqual(h.queryIDs(entityType, all[i], len(all)-i-1), all[i+1:], "ids of type %q after the one at place %d", entityType, i+1)
		}
	}
}

func idsOfStates(h *harness) {
	a, b, c := h.id(), h.id(), h.id()
	h.put(a, 0)
	h.put(b, 0)
	h.deleteState(b, 1)
	h.write(c, 0, 1)
	h.put(c, 0)
	h.wantIDs("", []annals.PersistenceID{a, b, c})
}

func idsOfDeleted(h *harness) {
	a, b := h.id(), h.id()
	h.writeSizes(a, 0, 4, 4)
	h.writeSizes(b, 0, 3)
	h.deleteTo(a, 6) // within a commit
	h.deleteTo(b, annals.MaxSeqNr)
	if h.caps.Snapshots {
		h.saveSnapshot(snapshotOf(h.id(), 1)) // of an entity without events or a state
	}
	h.wantIDs("", []annals.PersistenceID{a, b})
}

func idsOfTheLibrary(h *harness) {
	id := h.id()
	h.writeSizes(id, 0, 1)
	h.put(reserved, 0)
	h.wantIDs("annals.storetest", []annals.PersistenceID{reserved})
	h.wantIDs("", []annals.PersistenceID{id})
}

// tagged writes three entities, some of whose events have the tag "green", and returns those events.
func (h *harness) tagged() (green []annals.Event) {
	h.Helper()
	for range 3 {
		id := h.id()
		for after := range annals.SeqNr(6) {
			c := h.commit(id, after, 1)
			switch after % 3 {
			case 1:
				c.Events[0].Tags = []string{"green"}
			case 2:
				c.Events[0].Tags = []string{"apple", "green", "green apple"}
			case 0:
				c.Events[0].Tags = []string{"greenish"}
			}
			h.append(c)
		}
		for _, e := range h.replay(id, 1, annals.MaxSeqNr) {
			if slices.Contains(e.Tags, "green") {
				green = append(green, e)
			}
		}
	}
	slices.SortFunc(green, func(a, b annals.Event) int { return a.Offset().Compare(b.Offset()) })
	return green
}

func eventsByTag(h *harness) {
	green := h.tagged()
	h.wantEqual(len(green), 12, "green events of three replays")
	h.wantOffsets("query events tagged green", h.queryEvents(annals.Filter{Tag: "green"}, len(green)), green)
	h.wantOffsets("query events by a tag that no event has", h.queryEvents(annals.Filter{Tag: "blue"}, 0), nil)
	for i, e := range green {
		got := h.queryEvents(annals.Filter{Tag: "green", After: e.Offset()}, len(green)-i-1)
		h.wantOffsets(fmt.Sprintf("query events tagged green after the one at place %d", i+1), got, green[i+1:])
	}
}

func slowReader(h *harness) {
	all := h.population([]string{"Thing"}, 3, 20)
	h.queryEvents(annals.Filter{}, len(all)) // wait until all are visible
	var got []annals.Event
	for e, err := range h.store.Query().Events(h.ctx, annals.Filter{}) {
		if err != nil {
			h.Fatalf("query events: got error %v after %d, want none", err, len(got))
		}
		got = append(got, e)
		runtime.Gosched()
		if len(got)%10 == 0 {
			h.wantReplay(e.ID, e.SeqNr, e.SeqNr, e.SeqNr, e.SeqNr)
		}
	}
	h.wantOffsets("query events by a slow reader", got, all)
}

func eventsInOrder(h *harness) {
	all := h.population([]string{"Thing", "Other"}, 12, h.volume(20, 5))
	h.wantOffsets("query all events", h.queryEvents(annals.Filter{}, len(all)), all)
}

func eventsBySlices(h *harness) {
	all := h.population([]string{"Thing", "Other"}, 20, 3)
	for _, n := range []int{1, 3, 4, 16} {
		found := 0
		for i, r := range slices.Concat(annals.SliceRanges(n), annals.SpreadRanges(n)) {
			if i == n {
				h.wantEqual(found, len(all), "events found in %d ranges of slices", n)
				found = 0
			}
			want := slices.DeleteFunc(slices.Clone(all), func(e annals.Event) bool { return !r.Contains(e.ID.Slice()) })
			got := h.queryEvents(annals.Filter{Slices: r}, len(want))
			h.wantOffsets("query events of slices "+r.String(), got, want)
			found += len(got)
		}
		h.wantEqual(found, len(all), "events found in %d ranges of slices far apart", n)
	}
}

// paged queries page after page. The case ends when one has more items than f.Limit, or ends where it begins or before.
func paged[T any](h *harness, f annals.Filter, read func(f annals.Filter, want int) []T, offset func(T) annals.Offset) (all []T) {
	h.Helper()
	for {
		page := read(f, -1)
		if len(page) > f.Limit {
			h.Fatalf("query with the filter %+v: got %d items", f, len(page))
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		last := offset(page[len(page)-1])
		if last.Compare(f.After) <= 0 {
			h.Fatalf("query with the filter %+v: got %+v as the last of a page, want a later one", f, last)
		}
		f.After = last
	}
}

// pagesOfEvents queries batches, whose events have the same time, in pages that end within a batch.
func pagesOfEvents(h *harness) {
	var all []annals.Event
	for i := range 4 {
		id := h.id()
		h.append(h.commit(id, 0, h.batch(h.volume(30, 8)+i)))
		all = append(all, h.replay(id, 1, annals.MaxSeqNr)...)
	}
	all = append(all, h.population([]string{"Thing"}, 5, h.volume(5, 3))...)
	slices.SortFunc(all, func(a, b annals.Event) int { return a.Offset().Compare(b.Offset()) })
	h.queryEvents(annals.Filter{}, len(all))
	for _, limit := range []int{3, 7, 100, len(all), len(all) + 1} {
		got := paged(h, annals.Filter{Type: "Thing", Limit: limit}, h.queryEvents, annals.Event.Offset)
		h.wantOffsets(fmt.Sprintf("query events in pages of %d", limit), got, all)
	}
}

func queryBehindDelete(h *harness) {
	a, b := h.id(), h.id()
	h.writeSizes(a, 0, 4, 4)
	h.writeSizes(b, 0, 3)
	h.deleteTo(a, 6) // within a commit
	h.deleteTo(b, annals.MaxSeqNr)
	h.wantEvents("query events after deletes", h.queryEvents(annals.Filter{}, 2), a, 7, 8)
}

func appendWithinQuery(h *harness) {
	id := h.id()
	last := h.write(id, 0, 20)
	h.queryEvents(annals.Filter{}, int(last))
	n := 0
	for e, err := range h.store.Query().Events(h.ctx, annals.Filter{}) {
		if err != nil {
			h.Fatalf("query with appends in its body: got error %v after %d events, want none", err, n)
		}
		if n++; n == 10 {
			break
		}
		last = h.write(id, last, 1)
		h.wantEqual(e.SeqNr, annals.SeqNr(n), "number of event %d of a query", n)
	}
	h.wantEqual(n, 10, "events of a query with appends in its body")
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, last)
}

// statePopulation writes the states of several entities, some of them several times, and deletes some. It returns the newest revisions in the
// order of Offset.
func (h *harness) statePopulation(entityTypes []string, entities int) (all []annals.State) {
	h.Helper()
	for i := range entities {
		id := h.idOf(entityTypes[i%len(entityTypes)])
		for after := range annals.SeqNr(1 + i%4) {
			h.put(id, after)
		}
		if i%5 == 0 {
			h.deleteState(id, annals.SeqNr(1+i%4))
		}
		s, _, err := h.store.States().Get(h.ctx, id)
		if err != nil {
			h.Fatalf("state of %q: got error %v, want none", id, err)
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b annals.State) int { return a.Offset().Compare(b.Offset()) })
	return all
}

func (h *harness) wantStates(did string, got, want []annals.State) {
	h.Helper()
	wantItems(h, did, got, want, func(s annals.State) string {
		return fmt.Sprintf("%s, deleted %v, with %s and tags %q", placed(s.Offset()), s.Deleted, show(s.Payload), slices.Sorted(slices.Values(s.Tags)))
	})
}

func newestStates(h *harness) {
	all := h.statePopulation([]string{"Thing", "Other"}, 25)
	h.wantStates("query all states", h.queryStates(annals.Filter{}, len(all)), all)
	h.put(all[0].ID, all[0].Revision) // now its offset is the last
	s, _, err := h.store.States().Get(h.ctx, all[0].ID)
	if err != nil {
		h.Fatalf("state of %q: got error %v, want none", all[0].ID, err)
	}
	all[0] = s
	slices.SortFunc(all, func(a, b annals.State) int { return a.Offset().Compare(b.Offset()) })
	h.wantStates("query all states after a write", h.queryStates(annals.Filter{}, len(all)), all)
}

func pagesOfStates(h *harness) {
	all := h.statePopulation([]string{"Thing", "Other"}, h.volume(40, 15))
	for i, s := range all {
		h.wantStates(fmt.Sprintf("query states after place %d", i+1), h.queryStates(annals.Filter{After: s.Offset()}, len(all)-i-1), all[i+1:])
	}
	got := paged(h, annals.Filter{Limit: 7}, h.queryStates, annals.State.Offset)
	h.wantStates("query states in pages of 7", got, all)
}
