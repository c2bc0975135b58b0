package commit

import (
	"context"
	"iter"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/timeline"
)

// Append is annals.Journal: one put, on condition that no item has the key. Readers see whole commits, so two writers with the same
// After put to the same key. Where queries follow the times, and this process has neither written nor read the event before, it is read
// first: the clock that gave it a time may be ahead, and followers would see the new event first.
func (t *table) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	if err := t.announce(ctx, c.ID); err != nil {
		return annals.Receipt{}, err
	}
	if err := numbersFit(c); err != nil {
		return annals.Receipt{}, err
	}
	if t.index != "" && !t.times.Knows(c.ID, c.After) {
		if _, err := t.LastSeqNr(ctx, c.ID); err != nil {
			return annals.Receipt{}, err
		}
	}
	now := t.times.NotBefore(c.ID, t.x.Now())
	w := plan.Write{
		Ops:     []plan.Op{t.commitOp(c, &now)},
		Refused: func([]plan.Item, bool) error { return &annals.Error{Kind: annals.ErrConflict, After: c.After} },
	}
	if c.Snapshot != nil {
		snapshot := *c.Snapshot
		if snapshot.Time.IsZero() {
			snapshot.Time = now
		}
		header, err := t.saveParts(ctx, snapshot)
		if err != nil {
			return annals.Receipt{}, err
		}
		w.Ops = append(w.Ops, plan.Op{Table: t.name, Put: header})
	}
	out, err := t.x.Write(ctx, w)
	if err != nil {
		return annals.Receipt{}, err
	}
	if out.Repeated {
		return repeatedReceipt(c.ID, out.Old[0])
	}
	r := annals.Receipt{SeqNr: c.After + annals.SeqNr(len(c.Events)), Time: now}
	_ = t.x.Then(ctx, func(context.Context, plan.Executor) error {
		t.times.LearnTo(c.ID, now, r.SeqNr)
		return nil
	})
	if last := c.Events[len(c.Events)-1].Time; t.index == "" && !last.IsZero() {
		r.Time = last.UTC().Truncate(time.Microsecond)
	}
	return r, nil
}

// numbersFit is ErrInvalid for a commit whose last number is too high.
func numbersFit(c annals.Commit) error {
	if c.After > lastNumber-annals.SeqNr(len(c.Events)) {
		return plan.Misfit("the number of the last event would be above %d", lastNumber)
	}
	return nil
}

// repeatedReceipt returns the receipt of the commit in an item. Its time is that of the last event, or of the commit when that is deleted.
func repeatedReceipt(id annals.PersistenceID, it plan.Item) (annals.Receipt, error) {
	rec, err := read(id, it)
	if err != nil {
		return annals.Receipt{}, err
	}
	r := annals.Receipt{SeqNr: rec.last(), Time: rec.at, Repeated: true}
	last, err := rec.events(nil, r.SeqNr, r.SeqNr)
	for _, e := range last {
		r.Time = e.Time
	}
	return r, err
}

// commitOp stores c at the number of its first event, unless an item is there. now is set to the time that c is stored with.
func (t *table) commitOp(c annals.Commit, now *time.Time) plan.Op {
	it := t.commitItem(c, *now)
	op := plan.Op{Table: t.name, Put: it, Condition: absent, Names: idName, Ours: func(old plan.Item) bool { return wrote(old, c.WriteID) }}
	if t.index != "" {
		op.Stamp = func(at time.Time) {
			*now = t.times.NotBefore(c.ID, at)
			it[attrTime] = plan.Micros(*now)
		}
	}
	return op
}

// records yields the items of an entity that q finds. Table and Hash of q are not set.
func (t *table) records(ctx context.Context, id annals.PersistenceID, q plan.Query) iter.Seq2[record, error] {
	q.Table, q.Hash = t.name, string(id)
	return plan.Picked(t.x.Query(ctx, q), func(it plan.Item) (record, bool, error) {
		rec, err := read(id, it)
		return rec, true, err
	})
}

// newest returns the last commit or tombstone that q finds. There are few snapshots between two commits, so the first page is small.
func (t *table) newest(ctx context.Context, id annals.PersistenceID, q plan.Query) (record, bool, error) {
	q.From, q.Backward, q.Limit = plan.N(1), true, 2
	return plan.First(plan.Picked(t.records(ctx, id, q), func(rec record) (record, bool, error) { return rec, !rec.snapshot, nil }))
}

var keyFields = []string{attrSeq, attrCount, attrFrom, attrFormat, attrWrite, attrTime}

// LastSeqNr is annals.Journal. Tombstones are kept, so the newest commit or tombstone has the last number.
func (t *table) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	rec, ok, err := t.newest(ctx, id, plan.Query{Fields: keyFields})
	if !ok || err != nil {
		return 0, err
	}
	t.times.LearnTo(id, rec.at, rec.last())
	return rec.last(), nil
}

// free is the condition that no commit follows the number n: only a Forget would remove its item.
func (t *table) free(id annals.PersistenceID, n annals.SeqNr) plan.Op {
	return plan.Op{Table: t.name, Key: key(id, n+1), Condition: absent, Names: idName}
}

// guard is plan.Contracts.Guard.
func (t *table) guard(id annals.PersistenceID, n annals.SeqNr) ([]plan.Guard, error) {
	return []plan.Guard{{Op: t.free(id, n)}}, nil
}

// SkipTo is ability.Skipper: a tombstone of the events after+1 … n. The transaction that puts it also makes the last commit a tombstone.
func (t *table) SkipTo(ctx context.Context, id annals.PersistenceID, after, n annals.SeqNr) error {
	var ops []plan.Op
	if after > 0 {
		rec, _, err := t.newest(ctx, id, plan.Query{Fields: keyFields})
		switch {
		case err != nil:
			return err
		case rec.tombstone() && rec.write == (annals.WriteID{}) && rec.seq == after+1 && rec.last() == n:
			return nil // an earlier try has written it
		case rec.last() != after:
			return &annals.Error{After: after, Last: max(rec.last(), 0), Kind: annals.ErrConflict}
		case !rec.tombstone():
			if err := t.DeleteTo(ctx, id, rec.seq-1); err != nil {
				return err
			}
			ops = append(ops, stripOp(t.name, rec))
		}
	} else if err := t.announce(ctx, id); err != nil {
		return err
	}
	it := key(id, after+1)
	it[attrFormat], it[attrCount], it[attrFrom], it[attrTime] = plan.N(format), plan.N(n-after), plan.N(n+1), plan.Micros(t.x.Now())
	if t.index != "" {
		it[attrFeed] = plan.S(timeline.EventsKey(id))
	}
	_, err := t.x.Write(ctx, plan.Write{
		Ops: append(ops, plan.Op{Table: t.name, Put: it, Condition: absent, Names: idName,
			Ours: func(old plan.Item) bool {
				count, _ := plan.Number(old, attrCount)
				_, written := old[attrWrite]
				return !written && annals.SeqNr(count) == n-after
			}}),
		Refused: func([]plan.Item, bool) error { return &annals.Error{After: after, Kind: annals.ErrConflict} },
	})
	return err
}
