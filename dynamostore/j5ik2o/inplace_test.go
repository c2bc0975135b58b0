package j5ik2o_test

import (
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
)

// The plugin's update in place of an event that does not exist makes a row without id and number, which the plugin replaces when it stores the
// event. So do an append and a skip.
func TestUpdatedInPlaceBeforeItIsStored(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]j5ik2o.Layout{"default": {}, "several shards": {Journal: j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased}}, "index": {ByIndex: true}} {
		offer, err := l.Plan()
		if err != nil {
			t.Fatal(err)
		}
		x := plantest.New(offer.Tables)
		e := &plantest.Entity{Ctx: t.Context(), Offer: offer, ID: "Thread-42", First: 1}
		if err := e.Write(x, 9); err != nil {
			t.Fatal(err)
		}
		for _, it := range x.Items("Journal") {
			n, _ := plan.Number(it, "sequence-nr")
			if n < 6 {
				continue
			}
			row := plan.Item{}
			for _, name := range []string{"pkey", "skey", "message", "ordering", "deleted"} {
				row[name] = it[name]
			}
			if _, err := x.Write(t.Context(), plan.Write{Ops: []plan.Op{{Table: "Journal", Put: row}}}); err != nil {
				t.Fatal(err)
			}
		}
		c := offer.On(x)
		commit := annals.Commit{ID: e.ID, After: 5, WriteID: plantest.WriteID(6), Events: []annals.NewEvent{plantest.Event("6")}}
		for _, repeated := range []bool{false, true} {
			if r, err := c.Journal.Append(t.Context(), commit); err != nil || r.SeqNr != 6 || r.Repeated != repeated {
				t.Errorf("%s: append: %+v, %v", name, r, err)
			}
		}
		var got []annals.SeqNr
		for e, err := range c.Journal.Replay(t.Context(), e.ID, 1, annals.MaxSeqNr) {
			if err != nil {
				t.Errorf("%s: replay: %v", name, err)
			}
			got = append(got, e.SeqNr)
		}
		if len(got) != 6 {
			t.Errorf("%s: replayed %v", name, got)
		}
		if err := c.SkipTo(t.Context(), e.ID, 6, 9); err != nil {
			t.Errorf("%s: skip: %v", name, err)
		}
		if last, err := c.Journal.LastSeqNr(t.Context(), e.ID); last != 9 || err != nil {
			t.Errorf("%s: the last number is %d, %v", name, last, err)
		}
	}
}
