package pgstore

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/watchers"
)

const (
	maxGroups        = 4                     // statements at once
	usualGroups      = 2                     // statements at once unless one is blocked: fewer statements carry larger groups, with fewer flushes
	fewCommits       = 16                    // a second statement is sent while there are fewer in the first
	manyCommits      = 64                    // one more statement is sent for so many: in a larger group a commit costs as much
	blockedAfter     = 25 * time.Millisecond // a statement that takes longer is regarded as blocked by a lock
	maxGroupCommits  = 256                   // in one statement
	maxGroupEvents   = 1000                  // in one statement; a single commit may have more
	maxGroupBytes    = 8 << 20               // of payloads in one statement; a single commit may have more
	groupLockTimeout = 200 * time.Millisecond
	rejoinYields     = 100              // without a further commit of the callers that were just answered, about 20 µs: the next group is sent
	rejoinTime       = time.Millisecond // so does this time: where other goroutines keep the processors busy, a yield can take 100 ms
	racesLast        = 10 * time.Second // after another process has taken a number of a group, commits are written by appendRaced
	alone            = 8                // commits of a failed group that are attempted at once
)

// groups collects commits that wait while statements are running. When fewer statements are running than may be, a commit is sent at
// once: it never waits for other commits to join it.
type groups struct {
	write func([]*commit)

	mu      sync.Mutex
	waiting []*commit // in the order of arrival
	running int       // statements now
	writing int       // commits in them
	started time.Time // when the last statement was sent
	watched bool      // relieve will be called
	racedAt time.Time // when another process has taken a number of a group
}

// busy reports whether commits have to wait for a running statement.
func (g *groups) busy() bool {
	switch {
	case g.running == 0:
		return false
	case g.running == maxGroups:
		return true
	case time.Since(g.started) >= blockedAfter || len(g.waiting) >= manyCommits:
		return false
	}
	return g.running >= usualGroups || g.writing >= fewCommits
}

// serveOwn reports whether a commit may be sent at once, by its caller: that saves two switches between goroutines. If it may,
// the caller calls startNext when the statement is done.
func (g *groups) serveOwn() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) > 0 || g.busy() {
		return false
	}
	g.running, g.writing, g.started = g.running+1, g.writing+1, time.Now()
	return true
}

// startNext has the commits written that arrived during the caller's statement.
func (g *groups) startNext() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) > 0 {
		go g.run(1)
	} else {
		g.running, g.writing = g.running-1, g.writing-1
	}
}

// add queues m.
func (g *groups) add(m *commit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, m)
	g.serve()
}

// serve has the commits written that wait, or looks again when the statement that was sent last has become one that is blocked. It is called
// with the lock.
func (g *groups) serve() {
	if len(g.waiting) > 0 && !g.busy() {
		g.running++
		go g.run(0)
	} else {
		g.watch()
	}
}

// watch has serve called when the statement that was sent last is regarded as blocked, for the commits that wait then. Where there are as many
// statements as may be, the end of one has them written. It is called with the lock.
func (g *groups) watch() {
	if len(g.waiting) > 0 && !g.watched && g.running < maxGroups {
		g.watched = true
		time.AfterFunc(time.Until(g.started.Add(blockedAfter)), g.relieve)
	}
}

func (g *groups) relieve() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.watched = false
	g.serve()
}

// leave removes m. It returns false when m is being written already.
func (g *groups) leave(m *commit) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, m)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	return i >= 0
}

// run writes groups until there is none, after a statement with so many commits.
func (g *groups) run(written int) {
	for {
		group := g.take(written)
		if written = len(group); written == 0 {
			return
		}
		g.write(group)
		g.rejoined(written)
	}
}

// rejoined lets callers that were just answered append again, in the next group.
func (g *groups) rejoined(answered int) {
	runtime.Gosched()
	if answered < fewCommits {
		return
	}
	for n, idle, since := 0, 0, time.Now(); n < answered && idle < rejoinYields && time.Since(since) < rejoinTime; idle++ {
		runtime.Gosched()
		g.mu.Lock()
		now := len(g.waiting)
		g.mu.Unlock()
		if now > n {
			n, idle, since = now, 0, time.Now()
		}
	}
}

// raced reports whether another process has taken a number of a group lately.
func (g *groups) raced() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.racedAt.IsZero() && time.Since(g.racedAt) < racesLast
}

// race notes that another process has taken a number of a group.
func (g *groups) race() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.racedAt = time.Now()
}

// take ends a statement with so many commits and removes the next group, sorted by id: the oldest commits, one of each entity, because only one
// commit of an entity can win. The others wait for the next group.
func (g *groups) take(written int) []*commit {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running, g.writing = g.running-1, g.writing-written
	defer g.watch()
	if len(g.waiting) == 0 || g.busy() {
		return nil
	}
	g.running, g.started = g.running+1, time.Now()
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
	g.waiting, g.writing = later, g.writing+len(group)
	slices.SortFunc(group, func(a, b *commit) int { return cmp.Compare(a.id, b.id) })
	return group
}

// writeGroup makes the first attempt for a group, and answers each commit that it settles.
func (s *backend) writeGroup(group []*commit) {
	if group[0].snapshot != nil { // it is the only one
		go s.resolve(group[0])
		return
	}
	raced := s.groups.raced()
	times, err := s.insertGroup(group, raced)
	if unique(err) && !raced { // nothing was written
		s.groups.race()
		times, err = s.insertGroup(group, true)
	}
	if len(times) > 0 {
		s.wrote(watchers.SignalOf(slices.Collect(maps.Keys(times))...))
	}
	var rest []*commit
	for _, m := range group {
		at, won := times[m.id]
		if o, ok := m.first(at, won, err); ok {
			s.answer(m, o)
		} else {
			rest = append(rest, m)
		}
	}
	if len(rest) > 0 {
		go s.resolveEach(rest)
	}
}

// insertGroup is insert over a connection for groups.
func (s *backend) insertGroup(group []*commit, raced bool) (times map[annals.PersistenceID]time.Time, err error) {
	ctx, cancel := s.writeContext()
	defer cancel()
	if s.direct && allSingle(group) {
		return s.insertEach(ctx, group, raced)
	}
	err = s.groupPool(ctx).attempt(ctx, func(ctx context.Context, q querier) (err error) {
		times, err = s.insert(ctx, q, group, raced)
		return err
	})
	if err != nil {
		return nil, err
	}
	return times, nil
}

// resolveEach resolves commits, a few at once.
func (s *backend) resolveEach(commits []*commit) {
	free := make(chan struct{}, alone)
	for _, m := range commits {
		free <- struct{}{}
		go func() {
			defer func() { <-free }()
			s.resolve(m)
		}()
	}
}
