package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/watchers"
	"github.com/annals-go/annals/pgstore/internal/wire"
)

const (
	networkTime  = 2 * time.Second  // for an answer to travel, in addition to the server's own time-out: at most
	resolveFor   = 30 * time.Second // how long the outcome of a write is looked for: far less than fencingDelete keeps rows
	maxDeadlocks = 5                // attempts of a write that the server undid because of other transactions
)

// attempts is what is known of a write that is attempted until its outcome is known.
type attempts struct {
	since     time.Time // when the first attempt was sent
	unsettled int       // attempts after which the outcome was not known
	deadlocks int       // of those, attempts that the server undid because of other transactions
	maybe     bool      // an attempt may have done the write: its answer was lost
	blind     bool      // no attempt can find out what an earlier one has done
	look      bool      // a look-up comes first: an earlier call with the same WriteID may have done the write
}

// again takes note of an attempt that failed with err. It reports whether another one may succeed, or tell what this one did.
func (a *attempts) again(err error) bool {
	if a.look {
		a.look, a.maybe = false, true
	}
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

// untilKnown makes attempts of a write until its outcome is known, or for resolveFor. Where the answer to an attempt was lost, it makes no
// further ones when they would be blind, or once ctx has ended.
func (s *backend) untilKnown(ctx context.Context, a *attempts, attempt func(ctx context.Context, q querier) (outcome, error)) (o outcome, err error) {
	for {
		err = s.attempt(ctx, func(ctx context.Context, q querier) (err error) {
			o, err = attempt(ctx, q)
			return err
		})
		if err == nil || !a.again(err) {
			return o, err
		}
		if a.maybe && (a.blind || ctx.Err() != nil) || time.Since(a.since) > resolveFor {
			return outcome{}, &annals.Error{Kind: a.kind(), Err: fault(err).Err}
		}
		driver.Count(ctx, annals.Result{Retries: 1})
		_ = backoff.Wait(ctx, a.unsettled+3) // when ctx ends the next attempt fails at once
	}
}

// attempt makes one attempt of a write over a connection of the store's own, bounded in case that the server does not answer.
func (s *backend) attempt(ctx context.Context, do func(ctx context.Context, q querier) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.answerTime())
	defer cancel()
	return s.write.attempt(ctx, do)
}

// resolve makes attempts for m alone, and answers.
func (s *backend) resolve(m *commit) {
	o, err := s.untilKnown(context.Background(), &m.attempts, func(ctx context.Context, q querier) (outcome, error) {
		if m.attempts.look {
			return s.lookUp(ctx, q, m)
		}
		return s.writeCommit(ctx, q, m)
	})
	switch {
	case err != nil:
		o = outcome{err: fault(err)}
	case o.err == nil && !o.receipt.Repeated:
		s.wrote(watchers.SignalOf(m.id))
	}
	s.answer(m, o)
}

// writeCommit writes m alone, with its snapshot, or says why m cannot be written.
func (s *backend) writeCommit(ctx context.Context, q querier, m *commit) (outcome, error) {
	return s.writeWith(ctx, q, m, s.insertOne)
}

func (s *backend) writeWith(ctx context.Context, q querier, m *commit, insert func(context.Context, querier, *commit) error) (outcome, error) {
	m.at = time.Time{}
	write := func(q querier) (err error) {
		if err = insert(ctx, q, m); !m.won() || err != nil || m.snapshot == nil {
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
	case err == nil && m.won():
		return m.outcome(), nil
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

// insertOne writes m alone if m.after is the last number. A concurrent writer may also cause an error for which unique returns true.
func (s *backend) insertOne(ctx context.Context, q querier, m *commit) error {
	if !m.single() {
		return s.insert(ctx, q, []*commit{m}, true)
	}
	_, sql := s.singleStatement(m)
	e := &m.events[0]
	metaID, metaManifest, meta := metaColumns(&e.Metadata)
	err := q.QueryRow(ctx, sql, m.id.Slice(), m.id.Type(), string(m.id), int64(m.after), m.writer, e.SerializerID, e.Manifest, notNil(e.Data),
		e.Adapter, wire.TextArray(e.Tags), metaID, metaManifest, meta).Scan(&m.at)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}

// insertDeleted is insertOne where the newest row is a deleted event.
func (s *backend) insertDeleted(ctx context.Context, q querier, m *commit) error {
	return s.insertBy(ctx, q, s.sql.appendDeleted, []*commit{m})
}

// maxAhead is how far ahead of the server's clock an event's own time may be; appendAll writes nothing beyond it.
const maxAhead = time.Minute

// lookUp says why m was not written: most often its number is taken, perhaps by an earlier attempt. Where the number is not taken, but
// the last event is deleted or a snapshot is ahead of the journal, it writes m.
func (s *backend) lookUp(ctx context.Context, q querier, m *commit) (outcome, error) {
	var last, until int64
	var deleted bool
	var at *time.Time
	var now time.Time
	if err := q.QueryRow(ctx, s.sql.lookUp, string(m.id), int64(m.after), m.writer, len(m.events), m.timed()).Scan(&last, &deleted, &at, &until, &now); err != nil {
		return outcome{}, err
	}
	m.attempts.look, m.attempts.maybe = false, m.attempts.maybe || at != nil
	switch {
	case at != nil:
		return outcome{receipt: annals.Receipt{SeqNr: annals.SeqNr(until), Time: at.UTC(), Repeated: true}}, confirm(ctx, q, s.sql.lockNewest, string(m.id), until)
	case annals.SeqNr(last) == m.after && m.latest.Sub(now) > maxAhead:
		return outcome{err: invalid(m.ahead())}, nil
	case annals.SeqNr(last) == m.after && deleted:
		return s.writeWith(ctx, q, m, s.insertDeleted)
	case annals.SeqNr(last) < m.after:
		if skipped, err := s.skip(ctx, q, m.id, nil, m.after); err != nil {
			return outcome{}, err
		} else if skipped {
			return s.writeCommit(ctx, q, m)
		}
	}
	return outcome{err: conflict(m.after, annals.SeqNr(last))}, nil
}

// confirm locks the row of a write that was found. The server shows a write also when its wait for a synchronous
// standby was cancelled, as it is when a connection is closed. The end of a transaction with a lock waits for the standby as well, and so for all that was written before.
func confirm(ctx context.Context, q querier, lock string, args ...any) error {
	_, err := q.Exec(ctx, lock, args...)
	return err
}

// confirmNone is for a delete that may find nothing to do, because an earlier one has done it: its transaction waits for synchronous standbys, if there are
// any, only when it writes something. A message for logical decoding needs no row.
const confirmNone = `SELECT pg_logical_emit_message(TRUE, 'annals', '') WHERE current_setting('synchronous_standby_names') <> ''`

// answer gives m's outcome to its caller.
func (s *backend) answer(m *commit, o outcome) {
	m.done <- o
	s.background.Done()
}
