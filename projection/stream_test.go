package projection

import (
	"context"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
)

// heldBack is a store in which a transaction that stays open holds the watermark back.
type heldBack struct{ annals.Store }

func (s heldBack) Query() annals.Query { return heldBackQuery{s.Store.Query()} }

type heldBackQuery struct{ annals.Query }

func (heldBackQuery) Watermark(context.Context) (time.Time, error) {
	return time.Now().Add(-time.Hour), nil
}

// The end of states is after all that are visible, also where the watermark is far behind.
func TestEndOfStates(t *testing.T) {
	t.Parallel()
	mem := memstore.New()
	var last annals.Receipt
	for _, id := range []annals.PersistenceID{"Thing|1", "Thing|2", "Other|1"} {
		var err error
		if last, err = mem.States().Put(t.Context(), annals.StateWrite{ID: id, Payload: annals.Payload{SerializerID: 4}}); err != nil {
			t.Fatal(err)
		}
	}
	end, err := stream{heldBack{mem}, source{States: true}}.end(t.Context())
	if err != nil || !end.Covers(annals.Offset{Time: last.Time, SeqNr: 1, ID: "Other|1"}) || end.ID != "Other|1" {
		t.Errorf("got %+v, %v; the last state has time %v", end, err, last.Time)
	}
}
