package esa

import (
	"fmt"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// A replay yields all events between its bounds, and no more, whatever the digits of the bounds and of the last number are. Events of an id whose
// keys lie between those of the entity are not among them.
func TestReplayBounds(t *testing.T) {
	t.Parallel()
	for _, last := range []annals.SeqNr{1, 9, 10, 11, 98, 99, 100, 101, 130, 197, 198, 199, 200, 1005} {
		plan, err := Layout{Shards: 1, Format: Plain()}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		j := plan.On(plantest.New(plan.Tables)).Journal
		for after := annals.SeqNr(0); after < last; {
			c := annals.Commit{ID: "Thread|1", After: after, WriteID: annals.NewWriteID()}
			for i := range min(90, last-after) {
				c.Events = append(c.Events, plantest.Event(fmt.Sprint(after+1+i)))
			}
			if _, err := j.Append(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			after += annals.SeqNr(len(c.Events))
		}
		for _, other := range []annals.PersistenceID{"Thread|1-1", "Thread|1-9", "Thread|1-10", "Thread|1-99"} {
			if _, err := j.Append(t.Context(), annals.Commit{ID: other, WriteID: annals.NewWriteID(), Events: []annals.NewEvent{plantest.Event("other")}}); err != nil {
				t.Fatal(err)
			}
		}
		bounds := []annals.SeqNr{1, 2, 5, 9, 10, 11, 50, 99, 100, 101, last / 10, last/10 + 1, last / 2, last - 1, last, last + 1, annals.MaxSeqNr}
		if last > 200 {
			bounds = []annals.SeqNr{1, 2, 99, 100, 101, 950, 990, 999, 1000, last, annals.MaxSeqNr}
		}
		for _, from := range bounds {
			for _, to := range bounds {
				next := max(from, 1)
				for e, err := range j.Replay(t.Context(), "Thread|1", next, to) {
					if err != nil {
						t.Fatalf("%d events, %d to %d: %v", last, from, to, err)
					}
					if e.SeqNr != next || e.ID != "Thread|1" || e.SeqNr > to {
						t.Fatalf("%d events, %d to %d: got %s number %d, want %d", last, from, to, e.ID, e.SeqNr, next)
					}
					next++
				}
				if end := min(to, last); next <= end {
					t.Errorf("%d events, %d to %d: the last event is %d", last, from, to, next-1)
				}
			}
		}
	}
}
