package pgstore

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
)

const (
	maxGroups        = 4                     // statements in flight at once
	usualGroups      = 2                     // of those, as long as none is held up: fewer make larger groups, and fewer flushes
	patience         = 25 * time.Millisecond // how long a statement is in flight before it counts as held up, by somebody's lock
	maxGroupCommits  = 256                   // in one statement
	maxGroupEvents   = 1000                  // in one statement, but for a single commit, as is
	maxGroupBytes    = 8 << 20               // of payloads
	groupLockTimeout = 200 * time.Millisecond

	networkTime  = 2 * time.Second  // for an answer on its way, beyond the server's own time-out
	resolveFor   = 30 * time.Second // how long a lost answer is looked for: far below keepFor
	alone        = 8                // commits of a failed group that are retried at once
	maxDeadlocks = 5                // tries of a commit that the server undid for its company
)

// groups collects commits that wait for a statement. A commit that finds one free never waits: nothing is delayed
// for company.
type groups struct {
	write func([]*commit)

	mu      sync.Mutex
	waiting []*commit // in the order of their coming
	running int       // statements in flight
	started time.Time // when the last of them went out
}

// busy reports whether commits have to wait for company.
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
		m.since = time.Now()
	}
	g.waiting = later
	slices.SortFunc(group, func(a, b *commit) int { return cmp.Compare(a.id, b.id) })
	return group
}

// writeFirst writes the commit of a leader. When that does not settle the outcome it returns false: somebody else goes on
// and answers.
func (s *Store) writeFirst(ctx context.Context, m *commit) (outcome, bool) {
	m.since = time.Now()
	lost := false
	if m.snapshot == nil {
		at, ok, err := s.insertFirst(ctx, m)
		s.groups.follow()
		if ok {
			s.wrote()
			return m.won(at), true
		}
		if err != nil && undone(err) {
			return outcome{err: fault("append", m.id, err)}, true
		}
		m.maybe = err != nil && ambiguous(err)
		if m.maybe && ctx.Err() != nil {
			return outcome{err: ended(ctx, "append", m.id, annals.ErrUnknown)}, true
		}
		if lost = err == nil || unique(err); !lost {
			m.tries++
		}
	} else {
		s.groups.follow()
	}
	m.keep()
	s.calls.Add(1) // it may outlive this call
	go s.writeEach([]*commit{m}, lost)
	return outcome{}, false
}

// insertFirst is insertOne over a connection for groups, bounded.
func (s *Store) insertFirst(ctx context.Context, m *commit) (at time.Time, ok bool, err error) {
	if s.direct && m.plain() {
		return s.insertPlain(ctx, m)
	}
	ctx, cancel := context.WithTimeout(ctx, s.answerTime())
	defer cancel()
	return s.insertOne(ctx, s.group, m)
}

// writeGroup writes a group and answers each of its commits. What the group as a whole could not do is left to its
// commits alone.
func (s *Store) writeGroup(group []*commit) {
	if group[0].snapshot != nil {
		go s.writeAlone(group[0])
		return
	}
	ctx, cancel := s.writeContext()
	defer cancel()
	won, err := s.insert(ctx, s.group, group)
	if err != nil {
		lost := ambiguous(err)
		for _, m := range group {
			m.maybe = lost
			m.tries++
		}
		if !lost && undone(err) {
			for _, m := range group {
				s.answer(m, outcome{err: fault("append", m.id, err)})
			}
			return
		}
	}
	var rest []*commit
	for _, m := range group {
		if at, ok := won[m.id]; ok && err == nil {
			s.answer(m, m.won(at))
		} else {
			rest = append(rest, m)
		}
	}
	if len(won) > 0 && err == nil {
		s.wrote()
	}
	if len(rest) > 0 {
		go s.writeEach(rest, err == nil)
	}
}

// writeEach writes commits one by one, each in a statement of its own. Those known to have lost are only looked up.
func (s *Store) writeEach(commits []*commit, lost bool) {
	var wg sync.WaitGroup
	free := make(chan struct{}, alone)
	for _, m := range commits {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			if lost {
				s.answerLoser(m)
			} else {
				s.writeAlone(m)
			}
		})
	}
	wg.Wait()
}

// answerLoser answers a commit that did not win. Where the answer cannot be had it tries the whole write again, which
// comes to the same.
func (s *Store) answerLoser(m *commit) {
	ctx, cancel := s.writeContext()
	defer cancel()
	o, err := s.lookUp(ctx, s.write, m)
	if err != nil {
		m.maybe = true // an earlier call may have written it
		s.writeAlone(m)
		return
	}
	s.answer(m, o)
}

// writeAlone writes one commit and answers it, trying again as long as that can tell what happened.
func (s *Store) writeAlone(m *commit) {
	for {
		o, err := s.tryAlone(m)
		if err == nil {
			s.answer(m, o)
			return
		}
		switch {
		case retryable(err) && m.deadlocks < maxDeadlocks:
			m.deadlocks++
		case ambiguous(err):
			m.maybe = true
		case !m.maybe:
			s.answer(m, outcome{err: fault("append", m.id, err)})
			return
		}
		m.tries++
		if time.Since(m.since) > resolveFor {
			kind := annals.ErrUnavailable
			if m.maybe {
				kind = annals.ErrUnknown
			}
			s.answer(m, outcome{err: &annals.Error{Op: "append", ID: m.id, Kind: kind, Err: errors.Unwrap(fault("append", m.id, err))}})
			return
		}
		time.Sleep(backoff.Delay(m.tries + 3))
	}
}

// tryAlone is one try.
func (s *Store) tryAlone(m *commit) (outcome, error) {
	ctx, cancel := s.writeContext()
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return outcome{}, err
	}
	defer conn.Release()
	o, err := s.writeCommit(ctx, conn, m)
	if err == nil && o.err == nil && !o.receipt.Repeated {
		s.wrote()
	}
	return o, err
}

// answer hands m's outcome to whoever waits for it.
func (s *Store) answer(m *commit, o outcome) {
	m.done <- o
	s.calls.Done()
}

// writeContext bounds what the server bounds as well, for the case that it does not answer at all.
func (s *Store) writeContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), s.answerTime())
}
