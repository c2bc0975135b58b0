package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/valid"
	"github.com/annals-go/annals/internal/watchers"
	"github.com/annals-go/annals/pgstore/internal/wire"
)

// journal is the annals.Journal of a view.
type journal struct{ *view }

// directBytes is how large an event may be that is sent without a deadline for the whole statement.
const directBytes = 1 << 20

func (j journal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	if err := j.s.storableCommit(c); err != nil {
		return annals.Receipt{}, err
	}
	driver.Count(ctx, annals.Result{Requests: 1})
	m := newCommit(c)
	if j.tx != nil {
		o, err := j.s.writeCommit(ctx, j.tx.tx, m)
		if j.tx.changed(m.id, err == nil && o.err == nil); err != nil {
			return annals.Receipt{}, err
		}
		return o.receipt, o.err
	}
	o, ok := outcome{}, false
	if j.s.groups.serveOwn() {
		o, ok = j.s.writeFirst(ctx, m)
	} else {
		m.keep()
		j.s.background.Add(1)
		j.s.groups.add(m)
	}
	if !ok {
		o = j.s.await(ctx, m)
	}
	return o.receipt, o.err
}

// commit is an annals.Commit that is being written.
type commit struct {
	id       annals.PersistenceID
	after    annals.SeqNr
	writer   string
	events   []annals.NewEvent
	latest   time.Time // the latest of the events' own times, zero without any
	snapshot *annals.Snapshot
	size     int // bytes of payload

	attempts attempts
	at       time.Time    // of the events without times of their own, when the last attempt has won
	done     chan outcome // buffered: the caller may not wait any more
}

type outcome struct {
	receipt annals.Receipt
	err     error
}

// newCommit is c for as long as its caller waits.
func newCommit(c annals.Commit) *commit {
	m := &commit{id: c.ID, after: c.After, writer: c.WriteID.String(), events: c.Events, snapshot: c.Snapshot}
	for i := range m.events {
		e := &m.events[i]
		m.size += len(e.Data) + len(e.Metadata.Data)
		if e.Time.After(m.latest) {
			m.latest = e.Time
		}
	}
	if c.Snapshot != nil {
		m.size += len(c.Snapshot.Data)
	}
	return m
}

// keep copies what the caller may change once its call has returned, so that others can go on writing m.
func (m *commit) keep() {
	m.events = slices.Clone(m.events)
	for i := range m.events {
		m.events[i].Tags = slices.Clone(m.events[i].Tags)
	}
	if m.snapshot != nil {
		s := *m.snapshot
		s.Tags = slices.Clone(s.Tags)
		m.snapshot = &s
	}
	m.done = make(chan outcome, 1)
}

// timed reports whether events have times of their own.
func (m *commit) timed() bool { return !m.latest.IsZero() }

// single reports whether m is one event whose time is the store's.
func (m *commit) single() bool { return len(m.events) == 1 && !m.timed() }

// won reports whether the last attempt has stored m, if it ended without an error.
func (m *commit) won() bool { return !m.at.IsZero() }

// outcome is that of m when it has won.
func (m *commit) outcome() outcome {
	at := m.at
	if own := m.events[len(m.events)-1].Time; !own.IsZero() {
		at = own.Truncate(time.Microsecond)
	}
	return outcome{receipt: annals.Receipt{SeqNr: m.after + annals.SeqNr(len(m.events)), Time: at.UTC()}}
}

// ahead is why a commit is not written whose latest event has a time in the future.
func (m *commit) ahead() error {
	return fmt.Errorf("the time of an event is %v, more than %v ahead of the server's clock", m.latest, maxAhead)
}

// free reports whether o, of a look-up, says that m's number is not taken.
func (m *commit) free(o outcome) bool {
	e := (*annals.Error)(nil)
	return errors.As(o.err, &e) && e.Last == m.after
}

// first is the outcome of m when the first attempt to write it, over a connection for groups, ended with err. It is false where further
// attempts have to find the outcome.
func (m *commit) first(err error) (outcome, bool) {
	switch {
	case err == nil && m.won(): // the server has confirmed to the end of its answer that it stored the commit
		return m.outcome(), true
	case err == nil: // the number is taken, perhaps by an earlier attempt of the same commit
		m.attempts.look = true
	case m.attempts.again(err): // this attempt did nothing, or its outcome is unknown
	case undone(err): // another attempt would do no more
		return outcome{err: fault(err)}, true
	default: // the error may be due to other commits of the group, or to the short wait for locks
		m.attempts.unsettled++
	}
	return outcome{}, false
}

// writeFirst makes the first attempt for a commit that does not wait for others, in the caller's goroutine. When that does not
// settle the commit it returns false: another goroutine makes further attempts and answers.
func (s *backend) writeFirst(ctx context.Context, m *commit) (outcome, bool) {
	m.attempts.since = time.Now()
	if m.snapshot == nil {
		err := s.insertFirst(ctx, m)
		s.groups.startNext()
		switch o, ok := m.first(err); {
		case ok:
			if o.err == nil {
				s.wrote(watchers.SignalOf(m.id))
			}
			return o, true
		case err != nil && ctx.Err() != nil:
			return outcome{err: &annals.Error{Kind: m.attempts.kind(), Err: context.Cause(ctx)}}, true
		}
	} else {
		s.groups.startNext()
	}
	m.keep()
	s.background.Add(1)
	go s.resolve(m)
	return outcome{}, false
}

// insertFirst is insertOne over a connection for groups.
func (s *backend) insertFirst(ctx context.Context, m *commit) error {
	if s.direct && m.single() && valid.EventSize(&m.events[0]) <= directBytes {
		return s.insertDirectly(ctx, m)
	}
	ctx, cancel := context.WithTimeout(ctx, s.answerTime())
	defer cancel()
	return s.groupPool(ctx).attempt(ctx, func(ctx context.Context, q querier) error { return s.insertOne(ctx, q, m) })
}

// insertDirectly is insertOne of a single event over a connection for groups. It puts the parameters on the wire itself: the driver's
// conversion takes longer than the look at the last number. The socket's limit bounds it: a context with a deadline would cost more.
func (s *backend) insertDirectly(ctx context.Context, m *commit) error {
	var p wire.Parameters
	m.values(&p)
	name, sql := s.singleStatement(m)
	return s.sendDirectly(ctx, name, sql, &p, func(row [][]byte) (err error) {
		m.at, err = wire.Time(row[0])
		return err
	})
}

// sendDirectly sends a statement over a connection for groups, which has it prepared once.
func (s *backend) sendDirectly(ctx context.Context, name, sql string, p *wire.Parameters, row func(values [][]byte) error) error {
	conn, err := s.group.Acquire(ctx)
	if err != nil {
		return &undoneError{err}
	}
	defer conn.Release()
	statement, err := conn.Conn().Prepare(ctx, name, sql)
	if err != nil {
		return &undoneError{err}
	}
	err = wire.Send(ctx, conn.Conn().PgConn(), statement, p, row)
	if outdated(err) {
		_ = conn.Conn().Close(ctx)
	}
	return err
}

func (s *backend) singleStatement(m *commit) (name, sql string) {
	if m.after == 0 {
		return "annals_append_first", s.sql.appendFirst
	}
	return "annals_append_next", s.sql.appendNext
}

// await waits until m is answered or ctx has ended. When both have happened the answer counts.
func (s *backend) await(ctx context.Context, m *commit) outcome {
	select {
	case o := <-m.done:
		return m.counted(ctx, o)
	case <-ctx.Done():
	}
	if s.groups.leave(m) {
		s.background.Done()
		return outcome{err: &annals.Error{Kind: annals.ErrUnavailable, Err: context.Cause(ctx)}}
	}
	select {
	case o := <-m.done:
		return m.counted(ctx, o)
	default:
		return outcome{err: &annals.Error{Kind: annals.ErrUnknown, Err: context.Cause(ctx)}}
	}
}

// counted is o, with the attempts counted that m took.
func (m *commit) counted(ctx context.Context, o outcome) outcome {
	driver.Count(ctx, annals.Result{Retries: m.attempts.unsettled})
	return o
}

func (j journal) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	return j.s.lastSeqNr(ctx, j.reader(ctx), id)
}

func (s *backend) lastSeqNr(ctx context.Context, q querier, id annals.PersistenceID) (last annals.SeqNr, err error) {
	if err := q.QueryRow(ctx, s.sql.last, string(id)).Scan((*int64)(&last)); err != nil {
		return 0, err
	}
	if last < 0 {
		return 0, corrupt(string(id), last, errNumber)
	}
	return last, nil
}
