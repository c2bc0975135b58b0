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
	call, err := j.begin(ctx, "append", c.ID, len(c.Events))
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
	select {
	case o := <-m.done:
		call.result.Retries = m.tries
		return o.receipt, o.err
	case <-ctx.Done():
		if j.s.groups.leave(m) {
			j.s.calls.Done()
			return annals.Receipt{}, ended(ctx, "append", c.ID, annals.ErrUnavailable)
		}
		return annals.Receipt{}, ended(ctx, "append", c.ID, annals.ErrUnknown)
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

// validRead is PersistenceID.ValidateRead with the limit that the column has: in characters.
func validRead(op string, id annals.PersistenceID) error {
	if err := id.ValidateRead(op, annals.Limits{}); err != nil {
		return err
	}
	return fits(op, id)
}
