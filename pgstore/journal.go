package pgstore

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// journal is the annals.Journal of a view.
type journal struct{ *view }

func (j journal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	if err := j.s.storableCommit(c); err != nil {
		return annals.Receipt{}, err
	}
	m := newCommit(c)
	o, err := j.append(ctx, m)
	if err != nil {
		return annals.Receipt{}, err
	}
	return o.receipt, o.err
}

func (j journal) append(ctx context.Context, m *commit) (outcome, error) {
	driver.Count(ctx, annals.Result{Requests: 1})
	switch {
	case j.tx != nil:
		o, err := j.s.writeCommit(ctx, j.tx.tx, m)
		j.tx.changed(err == nil && o.err == nil)
		return o, err
	case j.s.groups.lead():
		if o, ok := j.s.writeFirst(ctx, m); ok {
			return o, nil
		}
	default:
		m.keep()
		j.s.background.Add(1)
		j.s.groups.add(m)
	}
	return j.s.await(ctx, m), nil
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
	driver.Count(ctx, annals.Result{Requests: 1})
	return j.s.lastSeqNr(ctx, j.reader(), id)
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
