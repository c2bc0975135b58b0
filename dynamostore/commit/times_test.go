package commit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// The clocks of processes differ, and can go back. A process that has read or written a write gives no earlier time to the next one.
func TestTimesNeverGoDown(t *testing.T) {
	t.Parallel()
	read := map[string]func(e *entity, x plan.Executor) error{
		"a recovery": func(e *entity, x plan.Executor) error { return e.Recover(x) },
		"a recovery from a snapshot": func(e *entity, x plan.Executor) error {
			if err := e.save(x, e.Acked, 1, false); err != nil {
				return err
			}
			return e.Recover(x)
		},
		"a replay":            func(e *entity, x plan.Executor) error { return e.Replay(x, 1, annals.MaxSeqNr, true) },
		"the end of a replay": func(e *entity, x plan.Executor) error { return e.Replay(x, e.Acked+1, annals.MaxSeqNr, true) },
		"the last number": func(e *entity, x plan.Executor) error {
			_, err := e.Offer.On(x).Journal.LastSeqNr(e.Ctx, e.ID)
			return err
		},
		"its own write": func(e *entity, x plan.Executor) error { return e.Append(x, e.Acked, 1, 'a') },
	}
	for _, index := range []string{"", "slices"} {
		for name, read := range read {
			t.Run(fmt.Sprintf("after %s, index %q", name, index), func(t *testing.T) {
				var x *plantest.Executor
				process := func() *entity {
					offer, err := commit.Layout{Index: index}.Plan()
					if err != nil {
						t.Fatal(err)
					}
					if x == nil {
						x = plantest.New(offer.Tables)
					}
					return newEntity(t.Context(), offer)
				}
				fast, slow := process(), process()
				now := x.Time
				x.Time = now.Add(time.Hour)
				if err := fast.Write(x, 1, 1); err != nil {
					t.Fatal(err)
				}
				if slow.Acked = fast.Acked; name != "its own write" {
					x.Time = now
				}
				if err := read(slow, x); err != nil {
					t.Fatal(err)
				}
				x.Time = now
				if err := slow.Write(x, 1); err != nil {
					t.Fatal(err)
				}
				var before time.Time
				for e, err := range slow.Offer.On(x).Journal.Replay(t.Context(), id, 1, annals.MaxSeqNr) {
					if err != nil || e.Time.Before(before) {
						t.Errorf("event %d of %v follows one of %v, %v", e.SeqNr, e.Time, before, err)
					}
					before = e.Time
				}
			})
		}
		t.Run(fmt.Sprintf("of a state, index %q", index), func(t *testing.T) {
			offer, err := commit.Layout{Index: index}.Plan()
			if err != nil {
				t.Fatal(err)
			}
			x := plantest.New(offer.Tables)
			now := x.Time
			put := func(offer plan.Offer, after annals.SeqNr, at time.Time) time.Time {
				x.Time = at
				r, err := offer.States.Write(t.Context(), x, plan.StateWrite{StateWrite: annals.StateWrite{ID: id, After: after, Payload: annals.Payload{SerializerID: 4}}, Time: at})
				if err != nil {
					t.Fatal(err)
				}
				return r.Time
			}
			first := put(offer, 0, now.Add(time.Hour))
			slow, err := commit.Layout{Index: index}.Plan()
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := slow.States.Get(t.Context(), x, id); err != nil {
				t.Fatal(err)
			}
			if second := put(slow, 1, now); second.Before(first) {
				t.Errorf("the second write has the time %v, the first %v", second, first)
			}
		})
	}
}
