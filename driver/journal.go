package driver

import (
	"context"
	"iter"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/valid"
)

// Journal is annals.Store.
func (s *store) Journal() annals.Journal {
	return journal{s, s.driver.Journal()}
}

type journal struct {
	s *store
	d annals.Journal // nil where Events is not claimed
}

func (j journal) fault(id annals.PersistenceID) error {
	return claimed(j.s.caps.Events, valid.ID("", id, j.s.caps.Limits))
}

// Append is annals.Journal. A Commit without a WriteID gets one. A Receipt has no Time where Times is not claimed.
func (j journal) Append(ctx context.Context, c annals.Commit) (r annals.Receipt, err error) {
	k := j.s.start(ctx, annals.Call{Op: "append", ID: c.ID, Events: len(c.Events)}, &err)
	defer k.end(&err)
	fault := claimed(j.s.caps.Events, valid.Commit(c, j.s.caps.Limits))
	if fault == nil && c.Snapshot != nil && !j.s.caps.CommitSnapshot {
		fault = unclaimed("a commit with a snapshot")
	}
	if err := k.use(fault, true); err != nil {
		return annals.Receipt{}, err
	}
	if c.WriteID == (annals.WriteID{}) {
		c.WriteID = annals.NewWriteID()
	}
	r, err = j.d.Append(k.in, c)
	j.s.tx.wrote(Seen{ID: c.ID, Number: c.After}, r.Repeated, err)
	if !j.s.caps.Times {
		r.Time = time.Time{}
	}
	if err == nil && k.spent != nil {
		size := 0
		for i := range c.Events {
			size += bytes(&c.Events[i].Payload, &c.Events[i].Metadata)
		}
		k.transferred(len(c.Events), size)
		if c.Snapshot != nil {
			k.transferred(snapshotSize(*c.Snapshot))
		}
	}
	return r, err
}

// Replay is annals.Journal.
func (j journal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	from = max(from, 1)
	return each(ctx, j.s, annals.Call{Op: "replay", ID: id}, j.fault(id), eventSize, func(ctx context.Context) iter.Seq2[annals.Event, error] {
		if from > to {
			return func(func(annals.Event, error) bool) {}
		}
		return j.s.tx.replay(ctx, j.d, id, from, to)
	})
}

// LastSeqNr is annals.Journal.
func (j journal) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	return ask(ctx, j.s, annals.Call{Op: "last number", ID: id}, false, j.fault(id), func(ctx context.Context) (annals.SeqNr, error) {
		n, err := j.d.LastSeqNr(ctx, id)
		if err == nil {
			j.s.tx.saw(Seen{ID: id, Number: n})
		}
		return n, err
	})
}

// DeleteTo is annals.Journal.
func (j journal) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	return do(ctx, j.s, annals.Call{Op: "delete events", ID: id}, true, j.fault(id), func(ctx context.Context) error {
		if to < 1 {
			return nil
		}
		return j.d.DeleteTo(ctx, id, to)
	})
}
