package subscription

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/annals-go/annals/internal/liveness"
)

// open are the shards of v that a loop can hold: those that have not ended, and that follow no shard that has not.
func (v view) open() (all []shard) {
	waits := map[string]bool{} // the parents that have not ended
	for _, s := range v.shards {
		if !s.ended {
			waits[s.id] = true
			if _, ok := s.part(); ok {
				waits[catchUp] = true
			}
		}
	}
	for _, s := range v.shards {
		if !s.ended && !waits[s.parent] {
			all = append(all, s)
		}
	}
	return all
}

// settled reports whether no loop can still hold a shard of an earlier round. dead are the loops that do not count.
func (v view) settled(dead []string) bool {
	for id, m := range v.loops {
		if m.round != 0 && m.round != v.head.round && !slices.Contains(dead, id) {
			return false
		}
	}
	return len(v.void) == 0
}

// share says which of loops, of which there is at least one, should hold each shard, by its id. The shares of two loops differ by one shard at
// most, and no more shards than needed move. Every loop comes to the same result.
func share(open []shard, loops []string) map[string]string {
	loops = slices.Sorted(slices.Values(loops))
	owners, shares := map[string]string{}, map[string]int{}
	for _, s := range open {
		if slices.Contains(loops, s.owner) {
			owners[s.id] = s.owner
			shares[s.owner]++
		}
	}
	byShare := func(a, b string) int { return cmp.Compare(shares[a], shares[b]) }
	for _, s := range open {
		if owners[s.id] == "" {
			fewest := slices.MinFunc(loops, byShare)
			owners[s.id] = fewest
			shares[fewest]++
		}
	}
	for {
		most, fewest := slices.MaxFunc(loops, byShare), slices.MinFunc(loops, byShare)
		if shares[most] <= shares[fewest]+1 {
			return owners
		}
		free := func(s shard) bool { return owners[s.id] == most && s.owner != most } // need not be handed over
		i := slices.IndexFunc(open, free)
		if i < 0 {
			i = slices.IndexFunc(open, func(s shard) bool { return owners[s.id] == most })
		}
		owners[open[i].id] = fewest
		shares[most]--
		shares[fewest]++
	}
}

// signs are the signs of life of the loops.
func (v view) signs() map[string]liveness.Sign[string] {
	all := make(map[string]liveness.Sign[string], len(v.loops))
	for id, m := range v.loops {
		all[id] = liveness.Sign[string]{Beat: m.write, Lease: m.lease}
	}
	return all
}

// memory is how long the stream is relied on to have its records, and its shards after they were created. The service keeps them for 24
// hours; the rest is for clocks that differ.
const memory = 20 * time.Hour

// parentsFirst returns shards in an order in which each comes after its parent.
func parentsFirst(shards []shard) (ordered []shard) {
	left := map[string]shard{}
	for _, s := range shards {
		left[s.id] = s
	}
	var take func(s shard)
	take = func(s shard) {
		delete(left, s.id)
		if parent, ok := left[s.parent]; ok {
			take(parent)
		}
		ordered = append(ordered, s)
	}
	ids := slices.SortedFunc(maps.Keys(left), strings.Compare)
	for _, id := range ids {
		if s, ok := left[id]; ok {
			take(s)
		}
	}
	return ordered
}
