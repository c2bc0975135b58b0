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
	blockedAfter     = 25 * time.Millisecond // a statement that takes longer is regarded as blocked by a lock
	maxGroupCommits  = 256                   // in one statement
	maxGroupEvents   = 1000                  // in one statement; a single commit may have more
	maxGroupBytes    = 8 << 20               // of payloads in one statement; a single commit may have more
	groupLockTimeout = 200 * time.Millisecond
	alone            = 8 // commits of a failed group that are attempted at once
)

// groups collects commits that wait while statements are running. When fewer statements are running than may be, a commit is sent at
// once: it never waits for other commits to join it.
type groups struct {
	write func([]*commit)

	mu      sync.Mutex
	waiting []*commit // in the order of arrival
	running int       // statements now
	started time.Time // when the last statement was sent
}

// busy reports whether a new commit has to wait for a running statement.
func (g *groups) busy() bool {
	return g.running == maxGroups || g.running >= usualGroups && time.Since(g.started) < blockedAfter
}

// serveOwn reports whether a commit may be sent at once, by its caller: that saves two switches between goroutines. If it may,
// the caller calls startNext when the statement is done.
func (g *groups) serveOwn() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy() || len(g.waiting) > 0 {
		return false
	}
	g.running++
	g.started = time.Now()
	return true
}

// startNext has the commits written that arrived during the caller's statement.
func (g *groups) startNext() {
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

func (g *groups) run() {
	for {
		group := g.take()
		if group == nil {
			return
		}
		g.write(group)
		runtime.Gosched() // callers that were just answered may append again, in the next group
	}
}

// take removes the next group, sorted by id: the oldest commits, one of each entity, because only one commit of an entity can win.
// The others wait for the next group.
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

// writeGroup makes the first attempt for a group, and answers each commit that it settles.
func (s *backend) writeGroup(group []*commit) {
	if group[0].snapshot != nil { // it is the only one
		go s.resolve(group[0])
		return
	}
	ctx, cancel := s.writeContext()
	defer cancel()
	var times map[annals.PersistenceID]time.Time
	err := s.group.attempt(ctx, func(ctx context.Context, q querier) (err error) {
		times, err = s.insert(ctx, q, group)
		return err
	})
	if err != nil {
		times = nil
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
