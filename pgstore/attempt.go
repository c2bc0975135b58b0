package pgstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
)

// A commit is written by attempts. The first is a statement for the commit alone or for its group, over connections that do not
// wait long for locks. What came back is classified, and that says what comes next. Further attempts are for one commit each.

const (
	networkTime  = 2 * time.Second  // for an answer on its way, beyond the server's own time-out: at most
	resolveFor   = 30 * time.Second // how long a lost answer is looked for: far below keepFor
	alone        = 8                // commits of a failed group that are attempted at once
	maxDeadlocks = 5                // attempts of a commit that the server undid because of other transactions
)

// step is what comes behind an attempt.
type step int

const (
	stored  step = iota // the commit is there: the server said so to the end of its answer
	lookUp              // the number is taken, perhaps by an earlier attempt of the same commit
	again               // the attempt did nothing, or nobody knows what it did
	refused             // the attempt did nothing, and the next would do no more
)

// classify says what comes behind an attempt to write m that ended with won and err. first is false for an attempt with m alone
// on a patient connection.
func (m *commit) classify(won bool, err error, first bool) step {
	switch {
	case err == nil && won:
		return stored
	case err == nil:
		return lookUp
	case ambiguous(err):
		m.maybe = true
	case m.maybe: // this attempt did nothing, an earlier one may have
	case retryable(err) && m.deadlocks < maxDeadlocks:
		m.deadlocks++
	case first && !undone(err): // the fault may be that of another commit in the group, or of the short wait for locks
	default:
		return refused
	}
	m.tries++
	return again
}

// unsettled is the error of m when no attempt settled it and err ended the last.
func (m *commit) unsettled(err error) error {
	kind := annals.ErrUnavailable
	if m.maybe {
		kind = annals.ErrUnknown
	}
	return &annals.Error{Op: "append", ID: m.id, Kind: kind, Err: err}
}

// writeFirst makes the first attempt for a commit that found nobody before it, in the caller's goroutine. When that does not
// settle the commit it returns false: another goroutine goes on and answers.
func (s *Store) writeFirst(ctx context.Context, m *commit) (outcome, bool) {
	m.since = time.Now()
	next := again
	if m.snapshot == nil {
		at, won, err := s.insertFirst(ctx, m)
		s.groups.follow()
		switch next = m.classify(won, err, true); {
		case next == stored:
			s.wrote()
			return m.won(at), true
		case next == refused:
			return outcome{err: fault("append", m.id, err)}, true
		case next == again && ctx.Err() != nil:
			return outcome{err: m.unsettled(context.Cause(ctx))}, true
		}
	} else {
		s.groups.follow()
	}
	m.keep()
	s.calls.Add(1) // it may outlive this call
	go s.resolve(m, next)
	return outcome{}, false
}

// insertFirst is insertOne over a connection for groups.
func (s *Store) insertFirst(ctx context.Context, m *commit) (at time.Time, won bool, err error) {
	if s.direct && m.plain() {
		return s.insertPlain(ctx, m)
	}
	ctx, cancel := context.WithTimeout(ctx, s.answerTime())
	defer cancel()
	return s.insertOne(ctx, s.group, m)
}

// writeGroup makes the first attempt for a group, and answers each commit that it settles.
func (s *Store) writeGroup(group []*commit) {
	if group[0].snapshot != nil { // it is alone
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
		switch next := m.classify(won, err, true); next {
		case stored:
			s.answer(m, m.won(at))
		case refused:
			s.answer(m, outcome{err: fault("append", m.id, err)})
		default:
			rest[next] = append(rest[next], m)
		}
	}
	for next, commits := range rest {
		go s.resolveEach(commits, next)
	}
}

// resolveEach resolves commits, a few at once.
func (s *Store) resolveEach(commits []*commit, next step) {
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

// resolve makes attempts with m alone, as long as they can tell what became of it, and answers it.
func (s *Store) resolve(m *commit, next step) {
	for {
		o, err := s.attempt(m, next)
		if err == nil {
			s.answer(m, o)
			return
		}
		if next == lookUp {
			m.maybe = true // an earlier call of the user may have stored it
		}
		if next = m.classify(false, err, false); next == refused {
			s.answer(m, outcome{err: fault("append", m.id, err)})
			return
		}
		if time.Since(m.since) > resolveFor {
			s.answer(m, outcome{err: m.unsettled(errors.Unwrap(fault("append", m.id, err)))})
			return
		}
		time.Sleep(backoff.Delay(m.tries + 3))
	}
}

// attempt looks m up, or writes it.
func (s *Store) attempt(m *commit, next step) (outcome, error) {
	ctx, cancel := s.writeContext()
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return outcome{}, err
	}
	defer conn.Release()
	write := s.writeCommit
	if next == lookUp {
		write = s.lookUp
	}
	o, err := write(ctx, conn, m)
	if err == nil && o.err == nil && !o.receipt.Repeated {
		s.wrote()
	}
	return o, err
}

// writeCommit writes m, or says who came before.
func (s *Store) writeCommit(ctx context.Context, q querier, m *commit) (outcome, error) {
	var at time.Time
	var won bool
	write := func(q querier) (err error) {
		if at, won, err = s.insertOne(ctx, q, m); !won || err != nil || m.snapshot == nil {
			return err
		}
		return s.save(ctx, q, *m.snapshot)
	}
	var err error
	if m.snapshot != nil {
		err = atomically(ctx, q, func(tx pgx.Tx) error { return write(tx) })
	} else {
		err = write(q)
	}
	switch {
	case err == nil && won:
		return m.won(at), nil
	case err == nil:
		return s.lookUp(ctx, q, m)
	case unique(err): // a row of another writer came first, or an index of the user's own refused it
		if tx, ok := q.(pgx.Tx); ok {
			if _, err := tx.Exec(ctx, undo); err != nil {
				return outcome{}, err
			}
		}
		o, failed := s.lookUp(ctx, q, m)
		if failed != nil || !m.free(o) {
			return o, failed
		}
	}
	return outcome{}, err
}

// lookUp answers a commit whose number is taken: an earlier attempt may have written it. Where the number is not taken, but behind
// a snapshot that is ahead of the journal, it writes the commit.
func (s *Store) lookUp(ctx context.Context, q querier, m *commit) (outcome, error) {
	var last, until int64
	var at *time.Time
	if err := q.QueryRow(ctx, s.sql.lookUp, string(m.id), int64(m.after), m.writer, len(m.events)).Scan(&last, &at, &until); err != nil {
		return outcome{}, err
	}
	if at != nil {
		return outcome{receipt: annals.Receipt{SeqNr: annals.SeqNr(until), Time: at.UTC(), Repeated: true}}, nil
	}
	if annals.SeqNr(last) < m.after {
		if skipped, err := s.skipToSnapshot(ctx, q, m.id, m.after); err != nil {
			return outcome{}, err
		} else if skipped {
			return s.writeCommit(ctx, q, m)
		}
	}
	return outcome{err: conflict("append", m.id, m.after, annals.SeqNr(last))}, nil
}

// free reports whether o, of a look-up, says that nobody has m's number.
func (m *commit) free(o outcome) bool {
	e := (*annals.Error)(nil)
	return errors.As(o.err, &e) && e.Last == m.after
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
