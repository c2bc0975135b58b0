package subscription

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// The marks of the entities of a batch are known while it is delivered, also when most of them were known for long and others take their place.
// Otherwise the reader would deliver all of their events again.
func TestMarksOfManyEntities(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		p := w.process()
		defer p.Close()
		r := &reader{loop: &loop{Subscriptions: p.Subscriptions, name: "s"}}
		r.marks.Most = 4
		batch := []annals.PersistenceID{"A|1", "A|2", "A|3", "A|4"}
		for _, id := range batch {
			if _, err := w.tables.Write(t.Context(), plan.Write{Ops: []plan.Op{{Table: subscriptions, Put: mark{seq: 7}.item("s", id)}}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.remember(t.Context(), batch[:2]); err != nil {
			t.Fatal(err)
		}
		for n := range 2*r.marks.Most - 2 { // with the first two as many as are known at most
			r.set(annals.PersistenceID(fmt.Sprint("B|", n)), mark{seq: 1})
		}
		if err := r.remember(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		for _, id := range batch {
			if got := r.mark(id).seq; got != 7 {
				t.Errorf("%s: got mark %d, want 7", id, got)
			}
		}
	})
}
