package pgstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/valid"
)

const (
	networkTime  = 2 * time.Second  // for an answer to travel, in addition to the server's own time-out: at most
	resolveFor   = 30 * time.Second // how long the outcome of a write is looked for: far less than keepFor
	alone        = 8                // commits of a failed group that are attempted at once
	maxDeadlocks = 5                // attempts of a write that the server undid because of other transactions
	directBytes  = 1 << 20          // of an event that is sent without a deadline for the whole statement
)

// attempts is what is known of a write that is attempted until its outcome is known.
type attempts struct {
	since     time.Time // when the first attempt was sent
	unsettled int       // attempts after which the outcome was not known
	deadlocks int       // of those, attempts that the server undid because of other transactions
	maybe     bool      // an attempt may have done the write: its answer was lost
	looked    bool      // a look-up has found that no earlier call with the same WriteID has done the write
}

// again takes note of an attempt that failed with err. It reports whether another one may succeed, or tell what this one did.
func (a *attempts) again(err error) bool {
	switch own := (*annals.Error)(nil); {
	case errors.As(err, &own): // not from the server, such as the error of a change handler: undone
		return false
	case ambiguous(err):
		a.maybe = true
	case a.maybe: // this attempt did nothing, an earlier one may have
	case retryable(err) && a.deadlocks < maxDeadlocks:
		a.deadlocks++
	default:
		return false
	}
	a.unsettled++
	return true
}

// kind is the kind of error of a write that no further attempt is made for.
func (a *attempts) kind() error {
	if a.maybe {
		return annals.ErrUnknown
	}
	return annals.ErrUnavailable
}

// step is what follows an attempt to write a commit.
type step int

const (
	stored  step = iota // nothing: the server has confirmed to the end of its answer that it stored the commit
	lookUp              // a look-up: the number is taken, perhaps by an earlier attempt of the same commit
	again               // another attempt: this one did nothing, or its outcome is unknown
	refused             // nothing: the attempt did nothing, and another one would do no more
)

// next classifies an attempt to write m that ended with won and err. together is true where the attempt was made for a group, or on a
// connection that does not wait long for locks: then an error may be due to that.
func (m *commit) next(won bool, err error, together bool) step {
	switch {
	case err == nil && won:
		return stored
	case err == nil:
		return lookUp
	case m.attempts.again(err):
		return again
	case together && !undone(err):
		m.attempts.unsettled++
		return again
	}
	return refused
}

// writeFirst makes the first attempt for a commit that does not wait for others, in the caller's goroutine. When that does not
// settle the commit it returns false: another goroutine makes further attempts and answers.
func (s *backend) writeFirst(ctx context.Context, m *commit) (outcome, bool) {
	m.attempts.since = time.Now()
	next := again
	if m.snapshot == nil {
		at, won, err := s.insertFirst(ctx, m)
		s.groups.follow()
		switch next = m.next(won, err, true); {
		case next == stored:
			s.wrote()
			return m.won(at), true
		case next == refused:
			return outcome{err: fault(err)}, true
		case next == again && ctx.Err() != nil:
			return outcome{err: &annals.Error{Kind: m.attempts.kind(), Err: context.Cause(ctx)}}, true
		}
	} else {
		s.groups.follow()
	}
	m.keep()
	s.background.Add(1)
	go s.resolve(m, next)
	return outcome{}, false
}

// insertFirst is insertOne over a connection for groups.
func (s *backend) insertFirst(ctx context.Context, m *commit) (at time.Time, won bool, err error) {
	if s.direct && m.single() && valid.EventSize(&m.events[0]) <= directBytes {
		return s.insertDirectly(ctx, m)
	}
	ctx, cancel := context.WithTimeout(ctx, s.answerTime())
	defer cancel()
	return s.insertOne(ctx, s.group, m)
}

// writeGroup makes the first attempt for a group, and answers each commit that it settles.
func (s *backend) writeGroup(group []*commit) {
	if group[0].snapshot != nil { // it is the only one
		go s.resolve(group[0], again)
		return
	}
	ctx, cancel := s.writeContext()
	defer cancel()
	times, err := s.insert(ctx, s.group, group)
	if len(times) > 0 {
		s.wrote()
	}
	rest := map[step][]*commit{}
	for _, m := range group {
		at, won := times[m.id]
		switch next := m.next(won, err, true); next {
		case stored:
			s.answer(m, m.won(at))
		case refused:
			s.answer(m, outcome{err: fault(err)})
		default:
			rest[next] = append(rest[next], m)
		}
	}
	for next, commits := range rest {
		go s.resolveEach(commits, next)
	}
}

// resolveEach resolves commits, a few at once.
func (s *backend) resolveEach(commits []*commit, next step) {
	var wg sync.WaitGroup
	free := make(chan struct{}, alone)
	for _, m := range commits {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			s.resolve(m, next)
		})
	}
	wg.Wait()
}

// resolve makes attempts for m alone until its outcome is known, or for resolveFor, and answers.
func (s *backend) resolve(m *commit, next step) {
	for {
		o, err := s.attempt(m, next)
		if err == nil {
			s.answer(m, o)
			return
		}
		if next == lookUp && !m.attempts.looked {
			m.attempts.maybe = true // an earlier call with the same WriteID may have stored it
		}
		if next = m.next(false, err, false); next == refused {
			s.answer(m, outcome{err: fault(err)})
			return
		}
		if time.Since(m.attempts.since) > resolveFor {
			s.answer(m, outcome{err: &annals.Error{Kind: m.attempts.kind(), Err: fault(err).Err}})
			return
		}
		time.Sleep(backoff.Delay(m.attempts.unsettled + 3))
	}
}

// attempt looks m up, or writes it, over a connection for single writes.
func (s *backend) attempt(m *commit, next step) (o outcome, err error) {
	ctx, cancel := s.writeContext()
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return outcome{}, err
	}
	defer conn.Release()
	if next == lookUp {
		o, err = s.lookUp(ctx, conn, m)
	} else {
		o, err = s.writeCommit(ctx, conn, m)
	}
	if err == nil && o.err == nil && !o.receipt.Repeated {
		s.wrote()
	}
	return o, err
}

// answer gives m's outcome to its caller.
func (s *backend) answer(m *commit, o outcome) {
	m.done <- o
	s.background.Done()
}

// writeContext bounds what the server bounds as well, in case that the server does not answer at all.
func (s *backend) writeContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), s.answerTime())
}
