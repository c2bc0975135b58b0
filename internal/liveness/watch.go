// Package liveness finds out which of the processes that share work by leases are dead. It compares the times of one clock only, that of the
// process which watches.
package liveness

import (
	"slices"
	"time"
)

// Sign is the sign of life of one member: a Beat that changes at least once in Lease while the member is alive.
type Sign[B comparable] struct {
	Beat  B
	Lease time.Duration
}

// Watch finds members that are dead: those whose sign of life has not changed for the time of their lease. The zero Watch has seen no member.
// It is not for concurrent use.
type Watch[B comparable] struct {
	At   time.Time // of the last look. Set it to a later time when the time since then must not count
	seen map[string]seen[B]
}

// seen is what is known of one member.
type seen[B comparable] struct {
	beat  B
	quiet time.Duration // since the beat was first seen
}

// Look takes note of the members, which were read at now, and returns the ids of those that are dead, sorted. However long ago the last look
// was, it counts as half a lease at most: the store may have been down, or this process stopped, and then no sign of life could be read.
func (w *Watch[B]) Look(members map[string]Sign[B], now time.Time) (dead []string) {
	passed := max(now.Sub(w.At), 0)
	all := make(map[string]seen[B], len(members))
	for id, m := range members {
		s := seen[B]{beat: m.Beat}
		if before, ok := w.seen[id]; ok && before.beat == m.Beat {
			s.quiet = before.quiet + min(passed, m.Lease/2)
			if s.quiet >= m.Lease {
				dead = append(dead, id)
			}
		}
		all[id] = s
	}
	w.At, w.seen = now, all
	slices.Sort(dead)
	return dead
}
