package leases

import "time"

// Patience is for how long the others wait for a sign of life of a member. It is twice as long each time when they have taken a part away from the member
// before anything of its work was saved, until it is longer than what the signs of life and the work take: so each part goes on. It becomes shorter again
// after a time that is twice as long with each mistake, so that there are ever fewer. The zero Patience has seen no mistake. It is not for concurrent use.
type Patience struct {
	mistake  bool      // since the last call of Lease
	longer   int       // how often the lease is doubled
	mistakes int       // how often it was, 16 at most
	changed  time.Time // when it was
}

// longest is a lease that is not doubled.
const longest = time.Hour

// Mistake takes note that the others have taken away a part from the member, which has saved nothing of it. Its work began at began: what began under
// a shorter lease than now does not count.
func (p *Patience) Mistake(began time.Time) { p.mistake = p.mistake || began.After(p.changed) }

// Lease returns the lease of the member at now, which is lease where the others have made no mistake of late.
func (p *Patience) Lease(lease time.Duration, now time.Time) time.Duration {
	switch {
	case p.mistake && lease<<p.longer < longest:
		p.longer, p.mistakes, p.changed = p.longer+1, min(p.mistakes+1, 16), now
	case p.longer > 0 && now.Sub(p.changed) >= lease<<p.mistakes:
		p.longer, p.changed = p.longer-1, now
	}
	p.mistake = false
	return lease << p.longer
}
