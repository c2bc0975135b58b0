package plantest_test

import (
	"slices"
	"testing"

	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// The queries of a Series that are read ahead are also executed before those in front of them.
func TestSeriesInEveryOrder(t *testing.T) {
	table := plan.Table{Name: "t", Hash: plan.Key{Name: "pid"}, Range: plan.Key{Name: "seq", Number: true}}
	for ahead, want := range map[int]bool{0: false, 1: true} {
		seen := false // the item of partition a, and not that of b, which was written before
		plantest.EveryOrder(t, plantest.Orders{Page: 2}, func(*plantest.Run) plantest.Scenario {
			put := func(x plan.Executor, hash string) error {
				it := plan.Item{"pid": plan.S(hash), "seq": plan.N(1)}
				_, err := x.Write(t.Context(), plan.Write{Ops: []plan.Op{{Table: "t", Put: it}}})
				return err
			}
			return plantest.Scenario{Tables: plantest.New([]plan.Table{table}), Processes: []func(x plan.Executor) error{
				func(x plan.Executor) error {
					if err := put(x, "b"); err != nil {
						return err
					}
					return put(x, "a")
				},
				func(x plan.Executor) error {
					found := map[int]int{}
					queries := []plan.Query{{Table: "t", Hash: "a"}, {Table: "t", Hash: "b"}}
					for p, err := range x.Series(t.Context(), slices.Values(queries), ahead) {
						if err != nil || !p.Last {
							t.Errorf("page %+v, %v", p, err)
						}
						found[p.Query] += len(p.Items)
					}
					if len(found) != 2 {
						t.Errorf("pages of %d queries, want 2", len(found))
					}
					seen = seen || found[0] == 1 && found[1] == 0
					return nil
				},
			}}
		})
		if seen != want {
			t.Errorf("ahead %d: the second query was executed first: %v, want %v", ahead, seen, want)
		}
	}
}
