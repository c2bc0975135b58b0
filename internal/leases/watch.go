// Package leases is what processes that share work by leases have in common: which of them are dead, who should do which part, and how often
// they look. Times are those of one clock only, that of the process which watches.
package leases

import (
	"math/rand/v2"
	"slices"
	"time"
)

// LookTime is the least time after which a look at what is stored gives up. It may be longer than a lease: a sign of life that takes long is
// better than none.
const LookTime = 20 * time.Second

// Pace is the time between two looks of a member, and so at most that between two signs of life: a third of its lease, or a tenth while it
// waits for a part that another one hands over. Pace is random by a tenth, so that members do not look at the same time.
func Pace(lease time.Duration, waits bool) time.Duration {
	wait := lease / 3
	if waits {
		wait = lease / 10
	}
	return wait*9/10 + rand.N(wait/5+1)
}

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
