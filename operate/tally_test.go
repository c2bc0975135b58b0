package operate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/random"
)

// A tally that remembers few entities finds each that has more than its part of all events, and says how much it may be wrong.
func TestTally(t *testing.T) {
	t.Parallel()
	random.Each(t, 20, func(t *testing.T, r *random.Source) {
		const most = 20
		small, exact, all := tally{most: most}, map[annals.PersistenceID]int{}, 0
		for range 5000 {
			id := annals.PersistenceID(fmt.Sprint(int(200 * r.Float64() * r.Float64() * r.Float64())))
			small.add(id, 1, 10)
			exact[id]++
			all++
		}
		found := map[annals.PersistenceID]bool{}
		for _, c := range small.top(most) {
			found[c.ID] = true
			if real := exact[c.ID]; c.Events < real || c.Events-int(c.Over) > real {
				t.Errorf("%s has %d events, and is shown with %d of which %d may be others'", c.ID, real, c.Events, c.Over)
			}
		}
		for id, n := range exact {
			if n > all/most && !found[id] {
				t.Errorf("%s has %d of %d events, and is not shown", id, n, all)
			}
		}
	})
}

// A tally of whole entities is exact, however few it remembers.
func TestWholeTally(t *testing.T) {
	t.Parallel()
	random.Each(t, 20, func(t *testing.T, r *random.Source) {
		for _, bytes := range []bool{false, true} {
			small, exact := tally{most: 10, whole: true, bytes: bytes}, map[annals.PersistenceID]counted{}
			for i := range 200 {
				c := counted{ID: annals.PersistenceID(fmt.Sprint(i)), Events: r.IntN(1e6), Bytes: r.Int64N(1e6)}
				exact[c.ID] = c
				small.add(c.ID, c.Events, c.Bytes)
			}
			want := slices.SortedFunc(maps.Values(exact), func(a, b counted) int {
				if bytes {
					return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.ID, b.ID))
				}
				return cmp.Or(cmp.Compare(b.Events, a.Events), cmp.Compare(a.ID, b.ID))
			})
			for i, c := range small.top(5) {
				if w := want[i]; c.Events != w.Events || c.Bytes != w.Bytes || c.Over != 0 {
					t.Errorf("place %d has %+v, want %+v", i, c, w)
				}
			}
		}
	})
}
