// Package clock notices clocks that jump. Followers rely on clocks where a store has no other order for its events.
package clock

import (
	"cmp"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// Step is how far a clock may be from where it is expected. A greater distance is a jump.
	Step = time.Second
	// hold is for how long a clock that jumped forward is not believed. A clock that was set wrong by mistake is likely to be set back
	// within this time.
	hold = time.Minute
)

// Guard compares a clock with the monotonic clock of this process, which does not jump. Its methods may be called concurrently. The zero
// Guard works.
type Guard struct {
	Hold time.Duration // a clock that jumped forward is not believed for so long; 0: a minute

	mu    sync.Mutex
	right time.Time // the last time of the clock that was believed
	at    time.Time // when that was, by the monotonic clock
	since time.Time // since when the clock has been ahead; zero when it is not
}

// Ahead returns how far the clock called name is ahead because it jumped, which is 0 again after a while. said is what the clock said between
// asked and now. The first time, the clock of this machine is what it is expected to say. warning is not nil while the clock is not believed,
// and once when the clock goes back. The begin and the end of a jump are logged.
func (g *Guard) Ahead(name string, said, asked time.Time) (ahead time.Duration, warning error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	first, hold := g.at.IsZero(), cmp.Or(g.Hold, hold)
	if first {
		g.right, g.at = now.Round(0), now
	}
	ahead = said.Sub(g.right.Add(now.Sub(g.at)))
	back := g.right.Add(asked.Sub(g.at)).Sub(said)
	switch {
	case ahead > Step && g.since.IsZero():
		g.since = now
		slog.Default().Warn("annals: a clock is ahead of what was expected: followers do not rely on it yet", "clock", name, "by", ahead, "for", hold)
		fallthrough
	case ahead > Step && now.Sub(g.since) < hold:
		return ahead, fmt.Errorf("%s is ahead by %v", name, ahead.Round(time.Millisecond))
	case ahead > Step:
		slog.Default().Warn("annals: a clock that jumped forward is believed from now on", "clock", name, "by", ahead)
	case now.Sub(asked) > Step/2: // too slow to judge
		return 0, nil
	case back > Step && !first:
		warning = fmt.Errorf("%s went back by %v: followers find events late that are stored before it is as far as it was, and may skip them when they begin anew", name, back.Round(time.Millisecond))
		slog.Default().Error("annals: " + warning.Error())
	case !g.since.IsZero():
		slog.Default().Warn("annals: a clock that had jumped forward is right again", "clock", name)
	}
	g.right, g.at, g.since = said, asked, time.Time{}
	return 0, warning
}
