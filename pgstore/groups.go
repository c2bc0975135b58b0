package pgstore

import (
	"cmp"
	"context"
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
	rejoinTime       = time.Millisecond // for which callers that were just answered are waited for, at most
	rejoinShare      = 8                // and at most this part of the time that their statement took
	racesLast        = 10 * time.Second // after another process has taken a number of a group, commits are written by appendRaced
	alone            = 8                // commits of a failed group that are attempted at once
)

// groups collects commits that wait while statements are running. When fewer statements are running than may be, a commit is sent at
// once, unless the callers of a large group were answered just now: these are likely to append again, and are waited for.
type groups struct {
	write func([]*commit)

	mu      sync.Mutex
	waiting []*commit     // in the order of arrival
	running int           // statements now
	writing int           // commits in them
	started time.Time     // when the last statement was sent
	watched bool          // relieve will be called
	joining int           // with so many waiting commits, all callers that were just answered have appended again; 0 when none are waited for
	joined  chan struct{} // is closed then
	racedAt time.Time     // when another process has taken a number of a group
}

// busy reports whether commits have to wait for a running statement, or for further commits.
func (g *groups) busy() bool {
	switch {
	case g.joining > 0 || g.running == maxGroups:
		return true
	case g.running == 0:
		return false
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
	if len(g.waiting) == g.joining {
		g.joining = 0
		close(g.joined)
		return
	}
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
	if len(g.waiting) > 0 && !g.watched && g.joining == 0 && g.running < maxGroups {
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
		g.rejoined()
	}
}

// rejoin has so many callers waited for, which are answered next.
func (g *groups) rejoin(answered int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.joining == 0 && answered >= fewCommits && len(g.waiting) < maxGroupCommits {
		g.joining, g.joined = min(len(g.waiting)+answered, maxGroupCommits), make(chan struct{})
	}
}

// rejoined lets callers that were just answered append again, in the next group.
func (g *groups) rejoined() {
	g.mu.Lock()
	joining, joined, wait := g.joining > 0, g.joined, min(time.Since(g.started)/rejoinShare, rejoinTime)
	g.mu.Unlock()
	if !joining {
		runtime.Gosched()
		return
	}
	select {
	case <-joined:
	case <-time.After(wait):
		g.mu.Lock()
		g.joining = 0
		g.mu.Unlock()
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
	err := s.insertGroup(group, raced)
	if unique(err) && !raced { // nothing was written
		s.groups.race()
		err = s.insertGroup(group, true)
	}
	var written watchers.Signal
	won := 0
	for _, m := range group {
		if err == nil && m.won() {
			written |= watchers.SignalOf(m.id)
			won++
		}
	}
	if won > 0 {
		s.wrote(written)
	}
	s.groups.rejoin(won)
	var rest []*commit
	for _, m := range group {
		if o, ok := m.first(err); ok {
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
func (s *backend) insertGroup(group []*commit, raced bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.answerTime())
	defer cancel()
	if s.direct && allSingle(group) {
		return s.insertEach(ctx, group, raced)
	}
	return s.groupPool(ctx).attempt(ctx, func(ctx context.Context, q querier) error { return s.insert(ctx, q, group, raced) })
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
