package esa

import (
	"cmp"
	"context"
	"maps"
	"math"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// apartSnapshots is the table of snapshots of Rust5. It is an annals.SnapshotStore. The newest snapshot of an entity is in the row with the number
// 0 in its key. It is never older than a copy that is not yet to expire.
type apartSnapshots struct{ copies }

func (s *apartSnapshots) begin(ctx context.Context, j *journal, id annals.PersistenceID) (h head, b driver.Beginning, err error) {
	key, err := s.headKey(id)
	newest, err2 := s.stateKey(id, 0)
	if err = cmp.Or(err, err2); err != nil {
		return h, b, err
	}
	items, err := s.x.GetMany(ctx, []plan.Get{{Table: j.heads, Key: key}, {Table: s.shape.Name, Key: newest}}) // they are not of one moment
	if err == nil && items[0] == nil {
		items[0], err = j.readAgain(ctx, id, key, items[1] != nil)
	}
	if err != nil {
		return h, b, err
	}
	if h, err = j.learned(id, items[0]); err == nil && items[1] != nil {
		b.Snapshot, err = s.read(id, items[1])
		b.Found = true
	}
	return h, b, err
}

func (s *apartSnapshots) exist(ctx context.Context, id annals.PersistenceID) (bool, error) {
	it, err := s.newest(ctx, id)
	return it != nil, err
}

// newest returns the row of the newest snapshot; nil when there is none.
func (s *apartSnapshots) newest(ctx context.Context, id annals.PersistenceID) (plan.Item, error) {
	key, err := s.stateKey(id, 0)
	if err != nil {
		return nil, err
	}
	it, _, err := s.x.Get(ctx, plan.Get{Table: s.shape.Name, Key: key})
	return it, err
}

func (s *apartSnapshots) with(sn *annals.Snapshot, _, _ annals.SeqNr, at time.Time) (head plan.Item, puts []plan.Op, err error) {
	if sn == nil {
		return nil, nil, nil
	}
	if sn.SeqNr > maxNumber {
		return nil, nil, plan.Misfit("the number of the snapshot is %d, the highest is %d", sn.SeqNr, maxNumber)
	}
	taken := sn.Time
	if taken.IsZero() {
		taken = at
	}
	it, err := s.stateKey(sn.ID, 0)
	if err != nil {
		return nil, nil, err
	}
	it[attrSeq], it[attrUpdated] = plan.N(sn.SeqNr), s.updated(taken)
	s.putPayload(it, sn.Payload, sn.Data)
	puts = []plan.Op{{Table: s.shape.Name, Put: it}}
	if s.keep > 0 {
		copied := maps.Clone(it)
		copied[attrSort], copied[s.peer.attrActive()] = plan.N(sn.SeqNr), plan.N(sn.SeqNr)
		puts = append(puts, plan.Op{Table: s.shape.Name, Put: copied})
	}
	return nil, puts, nil
}

// Save is annals.SnapshotStore. An older snapshot is dropped. The token keeps a put that was sent twice from replacing a later one of the same
// number.
func (s *apartSnapshots) Save(ctx context.Context, sn annals.Snapshot) error {
	_, ops, err := s.with(&sn, 0, 0, s.x.Now())
	if err != nil {
		return err
	}
	ops[0].Condition, ops[0].Names = "attribute_not_exists(#seq) OR #seq <= :seq", map[string]string{"#seq": attrSeq}
	ops[0].Values = plan.Item{":seq": plan.N(sn.SeqNr)}
	out, err := s.x.Write(ctx, plan.Write{Ops: ops, Token: plan.NewToken(), Refused: plan.Expected})
	if err == nil && !out.Refused {
		s.written(ctx, sn)
	}
	return err
}

// Latest is annals.SnapshotStore: the newest snapshot, or the newest copy that fits c and has not expired.
func (s *apartSnapshots) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	it, err := s.newest(ctx, id)
	if it == nil || err != nil {
		return annals.Snapshot{}, false, err
	}
	newest, err := s.read(id, it)
	if err != nil || s.fits(newest, c) {
		return newest, err == nil, err
	}
	from, to, some := plan.Numbers(c, 1)
	if !some {
		return annals.Snapshot{}, false, nil
	}
	copies := s.x.Query(ctx, plan.Query{Table: s.shape.Name, Hash: s.aid(id), From: plan.N(from), To: plan.N(to), Backward: true, Limit: 1})
	return plan.First(plan.Picked(copies, func(it plan.Item) (annals.Snapshot, bool, error) {
		sn, err := s.read(id, it)
		return sn, s.fits(sn, c) && !s.expired(it), err
	}))
}

// Delete is annals.SnapshotStore. When it deletes the newest snapshot and copies are left, the newest of them takes its place. So readers, the
// library among them, find the newest snapshot at one key.
func (s *apartSnapshots) Delete(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	key, err := s.stateKey(id, 0)
	if err != nil {
		return err
	}
	var newest, left plan.Item // left is the newest copy that stays
	var copies []plan.Item
	for it, err := range s.x.Query(ctx, plan.Query{Table: s.shape.Name, Hash: s.aid(id)}) {
		if err != nil {
			return err
		}
		sn, err := s.read(id, it)
		switch {
		case err != nil:
			return err
		case plan.SameKey(key, s.shape.KeyOf(it)):
			if s.fits(sn, c) {
				newest = it
			}
		case s.fits(sn, c):
			copies = append(copies, s.shape.KeyOf(it))
		case !s.expired(it):
			left = it
		}
	}
	if newest != nil {
		if err := s.replace(ctx, key, newest, left); err != nil {
			return err
		}
	}
	if len(copies) == 0 {
		return nil
	}
	return s.x.DeleteAll(ctx, s.shape.Name, copies)
}

// replace deletes the newest snapshot, which is at key, or replaces it with a copy, unless another save has replaced it.
func (s *apartSnapshots) replace(ctx context.Context, key, newest, with plan.Item) error {
	op := plan.Op{Table: s.shape.Name, Key: key, Delete: with == nil, Condition: "#seq = :seq AND #saved = :saved", Names: map[string]string{"#seq": attrSeq, "#saved": attrUpdated},
		Values: plan.Item{":seq": newest[attrSeq], ":saved": newest[attrUpdated]}}
	if with != nil {
		op.Key, op.Put = nil, maps.Clone(with)
		maps.Copy(op.Put, key)
		delete(op.Put, s.peer.attrActive())
		delete(op.Put, attrTTL)
	}
	_, err := plan.Try(ctx, s.x, op)
	return err
}

// read decodes a row. The number 0 is an error: the library's migration gives it to snapshots of tables of version 1, whose numbers it does not
// find.
func (s *apartSnapshots) read(id annals.PersistenceID, it plan.Item) (annals.Snapshot, error) {
	d := plan.Decoder{Item: it}
	sn := annals.Snapshot{ID: id, SeqNr: annals.SeqNr(d.Required(attrSeq, 1, int64(maxNumber))), Time: inTime(d.Required(attrUpdated, math.MinInt64, math.MaxInt64), s.peer.updated), Payload: s.payload(&d)}
	if d.Fault != nil {
		return annals.Snapshot{}, corrupt(it, d.Fault)
	}
	return sn, nil
}
