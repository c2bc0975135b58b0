package subscription

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
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

// watch finds loops that are dead: those whose sign of life has not changed for the time of their lease, by the clock of the process which
// watches.
type watch struct {
	at    time.Time // of the last look
	signs map[string]sign
}

// sign is what is known of one loop.
type sign struct {
	write string
	quiet time.Duration // since the write was first seen
}

// look takes note of loops, which were read at now, and returns those that are dead. However long ago the last look was, it counts as half
// a lease at most: the table may have been out of reach, or this process stopped, and then no sign of life could be read.
func (w *watch) look(loops map[string]member, now time.Time) (dead []string) {
	passed := max(now.Sub(w.at), 0)
	signs := map[string]sign{}
	for id, m := range loops {
		s := sign{write: m.write}
		if before, ok := w.signs[id]; ok && before.write == m.write {
			s.quiet = before.quiet + min(passed, m.lease/2)
			if s.quiet >= m.lease {
				dead = append(dead, id)
			}
		}
		signs[id] = s
	}
	w.at, w.signs = now, signs
	slices.Sort(dead)
	return dead
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
