package commit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Append is plan.Journal: one put on condition that its key is free. Readers see whole commits, so two writers with the same
// After meet on the same key.
func (t *table) Append(ctx context.Context, x plan.Executor, c annals.Commit) (annals.Receipt, error) {
	if err := t.announce(ctx, x, c.ID); err != nil {
		return annals.Receipt{}, err
	}
	now := x.Now()
	w := plan.Write{
		Ops:     []plan.Op{t.commitOp(c, &now)},
		Refused: func([]plan.Item, bool) error { return &annals.Error{Kind: annals.ErrConflict, After: c.After} },
	}
	if c.Snapshot != nil {
		snapshot := *c.Snapshot
		if snapshot.Time.IsZero() {
			snapshot.Time = now
		}
		header, err := t.saveParts(ctx, x, snapshot)
		if err != nil {
			return annals.Receipt{}, err
		}
		w.Ops = append(w.Ops, plan.Op{Table: t.name, Put: header})
	}
	out, err := x.Write(ctx, w)
	if err != nil {
		return annals.Receipt{}, err
	}
	if out.Repeated {
		old, err := read(c.ID, out.Old[0])
		return annals.Receipt{SeqNr: old.last(), Time: old.at, Repeated: true}, err
	}
	return annals.Receipt{SeqNr: c.After + annals.SeqNr(len(c.Events)), Time: now}, nil
}

// commitOp stores c under the number of its first event, unless that is taken. now is set to the time that it is stored with.
func (t *table) commitOp(c annals.Commit, now *time.Time) plan.Op {
	it := t.commitItem(c, *now)
	op := plan.Op{Table: t.name, Put: it, Condition: absent, Names: idName, Ours: func(old plan.Item) bool { return wrote(old, c.WriteID) }}
	if t.index != "" {
		op.Stamp = func(at time.Time) { *now, it[attrTime] = at, plan.Micros(at) }
	}
	return op
}

// Replay is plan.Journal.
func (t *table) Replay(ctx context.Context, x plan.Executor, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		r := replay{from: from, to: to, yield: func(e annals.Event) bool { return yield(e, nil) }}
		end := func(err error) {
			if err != nil {
				yield(annals.Event{}, err)
			}
		}
		start := from
		var seen annals.SeqNr // the commit that was read last
		if from > 1 {
			first, ok, err := t.commitAt(ctx, x, id, from)
			if err != nil {
				end(err)
				return
			}
			if ok {
				if more, err := r.next(first); !more || err != nil {
					end(err)
					return
				}
				seen = first.seq
			}
			start++
		}
		if start > to {
			return
		}
		for it, err := range x.Query(ctx, plan.Query{Table: t.name, Hash: string(id), From: plan.N(start), To: plan.N(to), Anchor: isCommit, Dense: true}) {
			if err != nil {
				end(err)
				return
			}
			rec, err := read(id, it)
			if err != nil {
				end(err)
				return
			}
			if rec.snapshot || rec.seq <= seen {
				continue
			}
			more, err := r.next(rec)
			if errors.Is(err, annals.ErrCorrupt) {
				err = t.holeOrEnd(ctx, x, id, seen, err)
			}
			if !more || err != nil {
				end(err)
				return
			}
			seen = rec.seq
		}
	}
}

// replay checks that the commits handed to next, in order, have no holes behind the first event.
type replay struct {
	from, to annals.SeqNr
	want     annals.SeqNr // the number that must come next; 0 before the first event
	yield    func(annals.Event) bool
}

func (r *replay) next(rec record) (more bool, err error) {
	if r.want != 0 {
		switch {
		case rec.seq != r.want:
			return false, hole(r.want, rec.seq)
		case rec.deleted():
			return false, &annals.Error{Kind: annals.ErrTruncated}
		}
	}
	more, err = rec.events(r.from, r.to, func(e annals.Event) bool {
		r.want = rec.last() + 1
		return r.yield(e)
	})
	return more, err
}

// holeOrEnd says what a hole behind the commit at seq is: corrupt, or the trace of an entity that was forgotten and has begun
// again since that commit was read.
func (t *table) holeOrEnd(ctx context.Context, x plan.Executor, id annals.PersistenceID, seq annals.SeqNr, corrupt error) error {
	_, ok, err := x.Get(ctx, plan.Get{Table: t.name, Key: key(id, seq)})
	switch {
	case err != nil:
		return err
	case !ok:
		return &annals.Error{Kind: annals.ErrTruncated}
	}
	return corrupt
}

func hole(want, have annals.SeqNr) error {
	return &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("event %d is followed by a commit from %d", want-1, have)}
}

// commitAt finds the commit or tombstone that n would be in: the last that begins at n or before.
func (t *table) commitAt(ctx context.Context, x plan.Executor, id annals.PersistenceID, n annals.SeqNr) (record, bool, error) {
	return t.newest(ctx, x, plan.Query{Hash: string(id), To: plan.N(n)})
}

// newest is the last commit or tombstone that q finds. Few snapshots lie between two commits, so the pages start small.
func (t *table) newest(ctx context.Context, x plan.Executor, q plan.Query) (record, bool, error) {
	q.Table, q.From, q.Backward, q.Limit = t.name, plan.N(1), true, 2
	for it, err := range x.Query(ctx, q) {
		if err != nil {
			return record{}, false, err
		}
		rec, err := read(annals.PersistenceID(q.Hash), it)
		if err != nil {
			return record{}, false, err
		}
		if !rec.snapshot {
			return rec, true, nil
		}
	}
	return record{}, false, nil
}

var keyFields = []string{attrSeq, attrCount, attrFrom, attrFormat, attrWrite}

// LastSeqNr is plan.Journal: tombstones stay, so the newest commit or tombstone knows.
func (t *table) LastSeqNr(ctx context.Context, x plan.Executor, id annals.PersistenceID) (annals.SeqNr, error) {
	rec, ok, err := t.newest(ctx, x, plan.Query{Hash: string(id), Fields: keyFields})
	if !ok || err != nil {
		return 0, err
	}
	return rec.last(), nil
}

// DeleteTo is plan.Journal: whole commits are stripped to tombstones in ascending order, each acknowledged before the next;
// last of all the commit that to divides is cut. So whatever a reader meets first has been deleted before what follows it,
// and a delete that was broken off has deleted a prefix.
func (t *table) DeleteTo(ctx context.Context, x plan.Executor, id annals.PersistenceID, to annals.SeqNr) error {
	last, err := t.LastSeqNr(ctx, x, id)
	if err != nil {
		return err
	}
	if to = min(to, last); to == 0 {
		return nil
	}
	whole, divided, err := t.held(ctx, x, id, to)
	if err != nil {
		return err
	}
	for _, rec := range slices.Backward(whole) {
		if err := t.strip(ctx, x, rec); err != nil {
			return err
		}
	}
	if divided == 0 {
		return nil
	}
	return t.cut(ctx, x, id, divided, to)
}

// held lists what DeleteTo has to do, newest first: the commits to strip, and the one that to divides, 0 when it divides none.
func (t *table) held(ctx context.Context, x plan.Executor, id annals.PersistenceID, to annals.SeqNr) (whole []record, divided annals.SeqNr, err error) {
	for it, err := range x.Query(ctx, plan.Query{Table: t.name, Hash: string(id), From: plan.N(1), To: plan.N(to), Backward: true, Fields: keyFields, Limit: 64}) {
		if err != nil {
			return nil, 0, err
		}
		rec, err := read(id, it)
		if err != nil {
			return nil, 0, err
		}
		rec.item = nil
		switch {
		case rec.snapshot:
			continue
		case rec.from > to || rec.from > rec.last():
			return whole, divided, nil
		case rec.last() > to:
			divided = rec.seq
		default:
			whole = append(whole, rec)
		}
		if rec.deleted() {
			return whole, divided, nil
		}
	}
	return whole, divided, nil
}

// strip makes a tombstone of a commit. That it is still this commit and not one of a later life of the entity, its WriteID
// says; and an update must not bring back a key that has been forgotten.
func (t *table) strip(ctx context.Context, x plan.Executor, rec record) error {
	values := plan.Item{":end": plan.N(rec.last() + 1), ":w": plan.B(rec.write[:])}
	_, err := x.Write(ctx, plan.Write{
		Ops: []plan.Op{{Table: t.name, Key: key(rec.id, rec.seq), Update: "SET #from = :end, #del = :now REMOVE #ev", Condition: "#w = :w",
			Names:  map[string]string{"#w": attrWrite, "#from": attrFrom, "#ev": attrEvents, "#del": attrErased},
			Values: values,
			Stamp:  func(now time.Time) { values[":now"] = plan.Micros(now) }}},
		Refused: func([]plan.Item, bool) error { return nil },
	})
	return err
}

// cut drops the events up to to from the commit at seq, unless more than that is gone already.
func (t *table) cut(ctx context.Context, x plan.Executor, id annals.PersistenceID, seq, to annals.SeqNr) error {
	it, ok, err := x.Get(ctx, plan.Get{Table: t.name, Key: key(id, seq)})
	if !ok || err != nil {
		return err
	}
	rec, err := read(id, it)
	if err != nil || rec.from > to {
		return err
	}
	list, ok := it[attrEvents].(*types.AttributeValueMemberL)
	if !ok || annals.SeqNr(len(list.Value)) != rec.last()-rec.from+1 {
		return corrupt(seq, fmt.Errorf("the commit does not hold the events %d to %d", rec.from, rec.last()))
	}
	_, err = x.Write(ctx, plan.Write{
		Ops: []plan.Op{{Table: t.name, Key: key(id, seq), Update: "SET #from = :from, #ev = :rest",
			Condition: "#w = :w AND (attribute_not_exists(#from) OR #from <= :to)",
			Names:     map[string]string{"#w": attrWrite, "#from": attrFrom, "#ev": attrEvents},
			Values: plan.Item{":from": plan.N(to + 1), ":to": plan.N(to), ":w": plan.B(rec.write[:]),
				":rest": &types.AttributeValueMemberL{Value: list.Value[to+1-rec.from:]}}}},
		Refused: func([]plan.Item, bool) error { return nil }, // another delete went further
	})
	return err
}

// SkipTo is plan.Rooms: a tombstone over 1 … n.
func (t *table) SkipTo(ctx context.Context, x plan.Executor, id annals.PersistenceID, n annals.SeqNr) error {
	if err := t.announce(ctx, x, id); err != nil {
		return err
	}
	it := key(id, 1)
	it[attrFormat], it[attrCount], it[attrFrom], it[attrTime] = plan.N(format), plan.N(n), plan.N(n+1), plan.Micros(x.Now())
	if t.index != "" {
		it[attrFeed] = plan.S(commitFeed(id.Type(), group(id)))
	}
	_, err := x.Write(ctx, plan.Write{
		Ops: []plan.Op{{Table: t.name, Put: it, Condition: absent, Names: idName,
			Ours: func(old plan.Item) bool {
				count, _ := plan.Number(old, attrCount)
				_, written := old[attrWrite]
				return !written && annals.SeqNr(count) == n
			}}},
		Refused: func([]plan.Item, bool) error { return &annals.Error{Kind: annals.ErrConflict} },
	})
	return err
}
