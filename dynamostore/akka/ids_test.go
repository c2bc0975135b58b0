package akka_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

const journalTable = "akka-persistence"

var indexed = akka.Layout{Journal: akka.Journal{IDIndex: "persistence-ids-idx"}}

// event is an item with an event as the plugin stores it.
func event(journal, id string, n int64) plan.Item {
	return plan.Item{"par": plan.S(fmt.Sprintf("%s-P-%s-%d", journal, id, n/100)), "num": plan.N(n % 100), "persistence_id": plan.S(id), "seq": plan.N(n),
		"event": plan.B(nil), "ev_ser_id": plan.N(4), "writer_uuid": plan.S("")}
}

// marker is a marker as the plugin stores it; kind is SH or SL.
func marker(journal, kind, id string, n int64) plan.Item {
	return plan.Item{"par": plan.S(fmt.Sprintf("%s-%s-%s-%d", journal, kind, id, n/100%10)), "num": plan.N(0), "seq": plan.N(n)}
}

func listed(t *testing.T, q annals.Query, entityType string, after annals.PersistenceID) (all []annals.PersistenceID) {
	t.Helper()
	for id, err := range q.IDs(t.Context(), entityType, after) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, id)
	}
	return all
}

// Each id of the journal is listed once, in order, whatever is left of its events.
func TestIDs(t *testing.T) {
	t.Parallel()
	c, x := offered(t, indexed, nil)
	for _, items := range map[string][]plan.Item{
		"events of three groups":                    {event("journal", "a", 1), event("journal", "a", 100), event("journal", "a", 101), event("journal", "a", 201), marker("journal", "SH", "a", 200)},
		"an id that is part of the keys of another": {event("journal", "a-1", 1), event("journal", "a-1-0", 1)},
		"ids of types":                              {event("journal", "Cart|1", 1), event("journal", "Carts|1", 1), event("journal", "Cart|0", 1)},
		"the first events deleted":                  {event("journal", "b", 3), marker("journal", "SL", "b", 3)},
		"all events deleted":                        {marker("journal", "SL", "c", 4)},
		"the first group deleted":                   {event("journal", "d", 101), marker("journal", "SL", "d", 101), marker("journal", "SH", "d", 100)},
		"only a marker of the highest group":        {marker("journal", "SH", "e", 100)},
		"the second event of a later group":         {event("journal", "f", 302), event("journal", "f", 301)},
		"a delete of an id that has no events":      {marker("journal", "SL", "none", 1)},
		"an id that looks like a key":               {event("journal", "x-P-y-3", 1)},
		"journals with other names":                 {event("other", "g", 1), event("journals", "h", 1), event("journal-P-v2", "i", 1), event("journal-P-v2", "j", 100), marker("journal-P-v2", "SL", "i", 8), event("journal-SH", "k", 1), event("a-journal", "l", 1)},
		"keys that are not the plugin's":            {{"par": plan.S("journal-P-"), "num": plan.N(1)}, {"par": plan.S("journal-P-m"), "num": plan.N(1)}, {"par": plan.S(""), "num": plan.N(0)}},
	} {
		for _, it := range items {
			put(t, x, journalTable, it)
		}
	}
	all := []annals.PersistenceID{"Carts|1", "Cart|0", "Cart|1", "a", "a-1", "a-1-0", "b", "c", "d", "e", "f", "x-P-y-3"}
	if got := listed(t, c.Queries, "", ""); !slices.Equal(got, all) {
		t.Errorf("ids %q, want %q", got, all)
	}
	for i, id := range all {
		if got := listed(t, c.Queries, "", id); !slices.Equal(got, all[i+1:]) {
			t.Errorf("ids after %q: %q", id, got)
		}
	}
	if got := listed(t, c.Queries, "Cart", ""); !slices.Equal(got, all[1:3]) {
		t.Errorf("ids of type Cart: %q", got)
	}
	if got := listed(t, c.Queries, "Cart", "Cart|0"); !slices.Equal(got, all[2:3]) {
		t.Errorf("ids of type Cart after Cart|0: %q", got)
	}
}

// Q-P1, Q-P2: the ids of the plugin's own test, whose events begin with number 0, all of them and those after an id.
func TestIDsOfTheSuite(t *testing.T) {
	t.Parallel()
	c, x := offered(t, indexed, nil)
	var all []annals.PersistenceID
	for i := range 201 {
		id := fmt.Sprintf("CurrentPersistenceIds_%04d", i)
		for n := range int64(6) {
			it := event("journal", id, n)
			it["idx"], it["cnt"] = plan.N(n), plan.N(5)
			put(t, x, journalTable, it)
		}
		all = append(all, annals.PersistenceID(id))
	}
	if got := listed(t, c.Queries, "", ""); !slices.Equal(got, all) {
		t.Errorf("%d ids, want %d", len(got), len(all))
	}
	if got := listed(t, c.Queries, "", all[19]); !slices.Equal(got, all[20:]) {
		t.Errorf("%d ids after %q, want %d", len(got), all[19], len(all)-20)
	}
}

// The name of this journal looks like a key of another journal: the events say whose they are.
func TestIDsOfJournalsWithNamesLikeKeys(t *testing.T) {
	t.Parallel()
	l := indexed
	l.Journal.Name = "acme-P-v1"
	c, x := offered(t, l, nil)
	for _, it := range []plan.Item{event("acme-P-v1", "a", 1), event("acme", "v1-P-b", 1), marker("acme-P-v1", "SL", "c", 5), event("acme-P-v1", "d", 101)} {
		put(t, x, journalTable, it)
	}
	if got := listed(t, c.Queries, "", ""); !slices.Equal(got, []annals.PersistenceID{"a", "d"}) {
		t.Errorf("ids %q", got)
	}
}

// The golden file has the requests for ids: two queries of the index, and reads of what the keys leave open.
func TestIDRequests(t *testing.T) {
	plantest.Requests(t, "ids", indexed, nil, func(b *plantest.Bench) {
		for _, it := range []plan.Item{event("journal", "a", 1), event("journal", "x-P-y", 1), marker("journal", "SL", "c", 5), marker("journal", "SL", "a", 1)} {
			put(b.TB.(*testing.T), b.Executor, journalTable, it)
		}
		b.Executor.Log()
		for id, err := range b.Queries.IDs(b.Context(), "", "") {
			b.Told(string(id), err)
		}
	})
}
