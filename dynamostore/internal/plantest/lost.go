package plantest

import (
	"errors"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/lost"
)

// LoseAnyRow takes away one item after another of the tables that prepare has filled for b.ID. A replay, a recovery and the last number must
// then be as before, or ErrCorrupt. accepted returns the reason why an item may have another effect; "" is none. A reason that is not
// needed is an error. The reads must not depend on what the layout remembers of the writes.
func LoseAnyRow(t *testing.T, layout plan.Layout, id annals.PersistenceID, prepare func(b *Bench), accepted func(table string, it plan.Item) string) {
	t.Helper()
	offer, err := layout.Plan()
	if err != nil {
		t.Fatal(err)
	}
	x := New(offer.Tables)
	prepare(&Bench{t, x, offer.On(x), offer, id})
	want, err := readAll(t, layout, x, id)
	if err != nil {
		t.Fatalf("with all rows: %v", err)
	}
	needed := map[string]bool{} // by reason
	for _, table := range offer.Tables {
		for i, it := range x.Items(table.Name) {
			less := x.Clone()
			less.tables[table.Name].items = slices.Delete(less.tables[table.Name].items, i, i+1)
			reason := accepted(table.Name, it)
			got, err := readAll(t, layout, less, id)
			wrong := err == nil && got != want || err != nil && !errors.Is(err, annals.ErrCorrupt)
			if wrong && reason == "" {
				t.Errorf("without item %s of table %q: %v, %v, want %v or ErrCorrupt", plan.QuoteKey(table.KeyOf(it)), table.Name, got, err, want)
			}
			if reason != "" {
				needed[reason] = needed[reason] || wrong
			}
		}
	}
	for reason, ok := range needed {
		if !ok {
			t.Errorf("the reason %q is not needed", reason)
		}
	}
}

// readAll reads an entity with a new Offer of layout, which remembers nothing.
func readAll(t *testing.T, layout plan.Layout, x plan.Executor, id annals.PersistenceID) (string, error) {
	t.Helper()
	offer, err := layout.Plan()
	if err != nil {
		t.Fatal(err)
	}
	c := offer.On(x)
	return lost.Read(t.Context(), c.Journal, c, id)
}
