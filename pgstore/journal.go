package pgstore

import (
	"context"

	"github.com/annals-go/annals"
)

type journal struct{ view }

func (j journal) Append(ctx context.Context, c annals.Commit) (r annals.Receipt, err error) {
	if err := j.s.validate(c); err != nil {
		return annals.Receipt{}, err
	}
	call, err := j.beginWrite(ctx, "append", c.ID, len(c.Events))
	if err != nil {
		return annals.Receipt{}, err
	}
	defer call.end(&err)
	m := newCommit(c)
	call.result.Requests, call.result.Events, call.result.Bytes = 1, len(m.events), m.size
	if j.tx != nil {
		o, err := j.s.writeCommit(call.ctx, j.tx.tx, m)
		if err != nil {
			return annals.Receipt{}, err
		}
		j.tx.wrote.Store(true)
		return o.receipt, o.err
	}
	if j.s.groups.lead() {
		if o, ok := j.s.writeFirst(call.ctx, m); ok {
			return o.receipt, o.err
		}
	} else {
		m.keep()
		j.s.calls.Add(1) // the write may outlive this call
		j.s.groups.add(m)
	}
	o := j.s.await(ctx, m, &call.result)
	return o.receipt, o.err
}

// await waits until m is answered or ctx has ended. When both have come the answer counts.
func (s *Store) await(ctx context.Context, m *commit, result *annals.Result) outcome {
	select {
	case o := <-m.done:
		result.Retries = m.attempts.unsettled
		return o
	case <-ctx.Done():
	}
	if s.groups.leave(m) {
		s.calls.Done()
		return outcome{err: ended(ctx, "append", m.id, annals.ErrUnavailable)}
	}
	select {
	case o := <-m.done:
		result.Retries = m.attempts.unsettled
		return o
	default:
		return outcome{err: ended(ctx, "append", m.id, annals.ErrUnknown)}
	}
}

func (j journal) LastSeqNr(ctx context.Context, id annals.PersistenceID) (last annals.SeqNr, err error) {
	if err := validRead("last number", id); err != nil {
		return 0, err
	}
	c, err := j.begin(ctx, "last number", id, 0)
	if err != nil {
		return 0, err
	}
	defer c.end(&err)
	return j.s.lastSeqNr(c.ctx, j.reader(), id)
}

func (s *Store) lastSeqNr(ctx context.Context, q querier, id annals.PersistenceID) (last annals.SeqNr, err error) {
	err = q.QueryRow(ctx, s.sql.last, string(id)).Scan((*int64)(&last))
	return last, err
}

func validRead(op string, id annals.PersistenceID) error { return id.ValidateRead(op, idLimits) }
