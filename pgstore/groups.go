package pgstore

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/annals-go/annals"
)

const (
	maxGroups        = 4                     // statements in flight at once
	usualGroups      = 2                     // of those, as long as none is held up: fewer make larger groups, and fewer flushes
	patience         = 25 * time.Millisecond // how long a statement is in flight before it counts as held up, by somebody's lock
	maxGroupCommits  = 256                   // in one statement
	maxGroupEvents   = 1000                  // in one statement, but for a single commit, as is
	maxGroupBytes    = 8 << 20               // of payloads
	groupLockTimeout = 200 * time.Millisecond
)

// groups collects commits that wait for a statement. A commit that finds one free is sent at once: it never waits for
// other commits to join it.
type groups struct {
	write func([]*commit)

	mu      sync.Mutex
	waiting []*commit // in the order of their coming
	running int       // statements in flight
	started time.Time // when the last of them went out
}

// busy reports whether a new commit has to wait for a running statement.
func (g *groups) busy() bool {
	return g.running == maxGroups || g.running >= usualGroups && time.Since(g.started) < patience
}

// lead lets a commit that finds nobody before it be a group of its own, written by its caller: it saves a lone writer two
// switches between goroutines. Whoever leads calls follow when the statement is done.
func (g *groups) lead() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy() || len(g.waiting) > 0 {
		return false
	}
	g.running++
	g.started = time.Now()
	return true
}

// follow has those written that came while the leader was at it.
func (g *groups) follow() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) > 0 {
		go g.run()
	} else {
		g.running--
	}
}

// add queues m.
func (g *groups) add(m *commit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, m)
	if !g.busy() {
		g.running++
		go g.run()
	}
}

// leave takes m back. It returns false when m is being written already.
func (g *groups) leave(m *commit) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, m)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	return i >= 0
}

func (g *groups) run() {
	for {
		group := g.take()
		if group == nil {
			return
		}
		g.write(group)
		runtime.Gosched() // whoever was just answered may come back for the next group
	}
}

// take is the next group, sorted by id: the oldest commits, one of each entity, for only one of an entity's can win. The
// others wait for the next group.
func (g *groups) take() []*commit {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.busy() || len(g.waiting) == 0 {
		return nil
	}
	g.running++
	g.started = time.Now()
	var group, later []*commit
	taken, size, events := make(map[annals.PersistenceID]bool, len(g.waiting)), 0, 0
	for _, m := range g.waiting {
		full := len(group) == maxGroupCommits || size+m.size > maxGroupBytes || events+len(m.events) > maxGroupEvents
		if taken[m.id] || len(group) > 0 && (full || m.snapshot != nil || group[0].snapshot != nil) {
			later = append(later, m)
			continue
		}
		group, size, events, taken[m.id] = append(group, m), size+m.size, events+len(m.events), true
		m.attempts.since = time.Now()
	}
	g.waiting = later
	slices.SortFunc(group, func(a, b *commit) int { return cmp.Compare(a.id, b.id) })
	return group
}
