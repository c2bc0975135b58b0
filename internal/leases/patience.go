package leases

import "time"

// Patience is for how long the others wait for a sign of life of a member. It is twice as long each time when they have taken the member for dead
// before anything of some work was saved, until it is longer than what the signs of life and the work take: so each part goes on. It becomes shorter again
// after a time that is twice as long with each mistake, so that there are fewer. The zero Patience has seen no mistake. It is not for concurrent use.
type Patience struct {
	longer   int       // how often the lease is doubled
	mistakes int       // how often it was, 16 at most
	changed  time.Time // when longer was
}

const (
	longest = time.Hour     // a lease that is doubled is not longer
	calm    = 4 * time.Hour // the longest time without a mistake until a lease is shorter, and the time until all mistakes are forgotten
)

// Lease returns the lease of the member at now, which is lease where the others have made no mistake of late. lost is when the last work began that
// others have taken away before anything of it was saved; the zero time is none. What began under another lease does not count.
func (p *Patience) Lease(lease time.Duration, lost, now time.Time) time.Duration {
	switch {
	case lost.After(p.changed) && lease<<p.longer < longest:
		p.longer, p.mistakes, p.changed = p.longer+1, min(p.mistakes+1, 16), now
	case p.longer > 0 && now.Sub(p.changed) >= min(lease<<p.mistakes, calm):
		p.longer, p.changed = p.longer-1, now
	case p.longer == 0 && now.Sub(p.changed) >= calm:
		p.mistakes = 0
	}
	return min(lease<<p.longer, max(lease, longest))
}
