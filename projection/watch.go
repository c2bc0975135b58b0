package projection

import (
	"slices"
	"time"
)

// watch finds runners that are dead: those whose sign of life has not changed for the time of their lease. It compares the times of one
// clock, that of the process which watches. It is not for concurrent use.
type watch struct {
	at    time.Time // of the last look
	signs map[string]sign
}

// sign is what is known of one runner.
type sign struct {
	beat  int64
	quiet time.Duration // since the beat was first seen
}

// look takes note of r, which was read at now, and returns the ids of the runners in it that are dead. However long ago the last look was,
// it counts as half a lease at most: the store may have been down, or this process stopped, and then no sign of life could be read.
func (w *watch) look(r record, now time.Time) (dead []string) {
	passed := max(now.Sub(w.at), 0)
	signs := map[string]sign{}
	for id, x := range r.Runners {
		s := sign{beat: x.Beat}
		if before, ok := w.signs[id]; ok && before.beat == x.Beat {
			s.quiet = before.quiet + min(passed, x.lease()/2)
			if s.quiet >= x.lease() {
				dead = append(dead, id)
			}
		}
		signs[id] = s
	}
	w.at, w.signs = now, signs
	slices.Sort(dead)
	return dead
}
