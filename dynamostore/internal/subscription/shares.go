package subscription

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/annals-go/annals/internal/leases"
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

// signs are the signs of life of the loops.
func (v view) signs() map[string]leases.Sign[string] {
	all := make(map[string]leases.Sign[string], len(v.loops))
	for id, m := range v.loops {
		all[id] = leases.Sign[string]{Beat: m.write, Lease: m.lease}
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
