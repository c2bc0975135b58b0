package j5ik2o_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/annals-go/annals/internal/akkawire"
)

// A number may be missing where the plugin left it unused, and nowhere else: not between two writers, not within one commit.
func TestHoles(t *testing.T) {
	t.Parallel()
	const inPlace = '-'
	for name, c := range map[string]struct {
		writers string // of the events 1 … 5, of which 3 is then removed
		batch   bool   // all in one commit
		whole   bool
	}{
		"lost":                             {writers: "12345"},
		"lost between two writers":         {writers: "ppabb"},
		"lost in a commit":                 {writers: "ppppp", batch: true},
		"rejected by the plugin":           {writers: "ppppp", whole: true},
		"rejected, between other writers":  {writers: "1ppp2", whole: true},
		"updated in place before the hole": {writers: "p-pab", whole: true},
		"updated in place after the hole":  {writers: "1pp-2", whole: true},
	} {
		o := newOwner(t, j5ik2o.Layout{ShardCount: 3, Journal: j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased}})
		commit := annals.Commit{ID: o.id}
		for n, writer := range c.writers {
			commit.WriteID = plantest.WriteID(byte(writer))
			if commit.Events = append(commit.Events, plantest.Event("e")); c.batch && n < 4 {
				continue
			}
			if _, err := o.offer.On(o.x).Journal.Append(t.Context(), commit); err != nil {
				t.Fatal(err)
			}
			commit.After, commit.Events = annals.SeqNr(n)+1, nil
		}
		for n, writer := range c.writers {
			key := plan.Item{"pkey": plan.S(fmt.Sprintf("Thread-42-%d", (n+1)%3)), "skey": plan.S(fmt.Sprintf("42-%019d", n+1))}
			if writer == inPlace {
				row, _, _ := o.x.Get(t.Context(), plan.Get{Table: "Journal", Key: key})
				row["message"] = plan.B(akkawire.Record{Payload: plantest.Event("e").Payload, SeqNr: annals.SeqNr(n) + 1, ID: o.id}.Append(nil))
			}
			if n+1 == 3 {
				if err := o.x.DeleteAll(t.Context(), "Journal", []plan.Item{key}); err != nil {
					t.Fatal(err)
				}
			}
		}
		var got []annals.SeqNr
		var failed error
		for e, err := range o.offer.On(o.x).Journal.Replay(t.Context(), o.id, 1, annals.MaxSeqNr) {
			if failed = err; err == nil {
				got = append(got, e.SeqNr)
			}
		}
		want := "[1 2 4 5]"
		if !c.whole {
			want = "[1 2]"
		}
		if fmt.Sprint(got) != want || c.whole != (failed == nil) || !c.whole && !errors.Is(failed, annals.ErrCorrupt) {
			t.Errorf("%s: replayed %v, %v; want %s, whole %v", name, got, failed, want, c.whole)
		}
	}
}
