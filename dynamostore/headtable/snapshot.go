package headtable

import (
	"cmp"
	"context"
	"maps"
	"math"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// snapshots is the table of snapshots. It is an annals.SnapshotStore. The current snapshot of an entity is never older than a copy that is not yet
// to expire.
type snapshots struct {
	x            plan.Executor
	table, index string
	keep         int // copies
	expire       time.Duration
}

// puts returns the ops that store s as the current snapshot, and as a copy where copies are kept. at is the time of a snapshot without one.
func (s *snapshots) puts(aid string, sn annals.Snapshot, at time.Time) ([]plan.Op, error) {
	if sn.SeqNr > maxSeqNr {
		return nil, fault("the number of the snapshot is %d, the highest is %d", sn.SeqNr, maxSeqNr)
	}
	if sn.Time.IsZero() {
		sn.Time = at
	}
	it := snapshotKey(aid, currentPlace)
	it[attrSeq], it[attrSaved] = plan.N(sn.SeqNr), plan.N(sn.Time.UnixMilli())
	putPayload(it, sn.Payload)
	ops := []plan.Op{{Table: s.table, Put: it}}
	if s.keep > 0 {
		copied := maps.Clone(it)
		copied[attrPlace], copied[attrActive] = plan.N(sn.SeqNr), plan.N(sn.SeqNr)
		ops = append(ops, plan.Op{Table: s.table, Put: copied})
	}
	return ops, nil
}

// Save is annals.SnapshotStore. An older snapshot is dropped. The token keeps a put that was sent twice from replacing a later one of the same
// number.
func (s *snapshots) Save(ctx context.Context, sn annals.Snapshot) error {
	aid, err := aidOf(sn.ID)
	if err != nil {
		return err
	}
	ops, err := s.puts(aid, sn, s.x.Now())
	if err != nil {
		return err
	}
	ops[0].Condition, ops[0].Names, ops[0].Values = absent+" OR #seq <= :seq", map[string]string{"#aid": attrAID, "#seq": attrSeq}, plan.Item{":seq": plan.N(sn.SeqNr)}
	out, err := s.x.Write(ctx, plan.Write{Ops: ops, Token: plan.NewToken(), Refused: func([]plan.Item, bool) error { return nil }})
	if err == nil && !out.Refused {
		s.written(ctx, aid, sn.SeqNr)
	}
	return err
}

// Latest is annals.SnapshotStore: the current snapshot, or the newest copy that fits c and has not expired.
func (s *snapshots) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	aid, err := aidOf(id)
	if err != nil {
		return annals.Snapshot{}, false, err
	}
	it, ok, err := s.x.Get(ctx, plan.Get{Table: s.table, Key: snapshotKey(aid, currentPlace)})
	if !ok || err != nil {
		return annals.Snapshot{}, false, err
	}
	current, err := s.read(id, it)
	if err != nil || fits(current, c) {
		return current, err == nil, err
	}
	from, to := max(c.MinSeqNr, 1), cmp.Or(c.MaxSeqNr, annals.MaxSeqNr)
	if from > to {
		return annals.Snapshot{}, false, nil // the service refuses a query for no values
	}
	for it, err := range s.x.Query(ctx, plan.Query{Table: s.table, Hash: aid, From: plan.N(from), To: plan.N(to), Backward: true, Limit: 1}) {
		if err != nil {
			return annals.Snapshot{}, false, err
		}
		sn, err := s.read(id, it)
		if err != nil || fits(sn, c) && !s.expired(it) {
			return sn, err == nil, err
		}
	}
	return annals.Snapshot{}, false, nil
}

// expired reports whether a copy is to be removed by the expiry of the table.
func (s *snapshots) expired(it plan.Item) bool {
	end, ok := plan.Number(it, attrExpiry)
	return ok && end <= s.x.Now().Unix()
}

// fits reports whether c chooses a snapshot. Times are in milliseconds, as they are stored.
func fits(s annals.Snapshot, c annals.SnapshotCriteria) bool {
	at := s.Time.UnixMilli()
	return s.SeqNr >= c.MinSeqNr && (c.MaxSeqNr == 0 || s.SeqNr <= c.MaxSeqNr) && (c.MinTime.IsZero() || at >= c.MinTime.UnixMilli()) && (c.MaxTime.IsZero() || at <= c.MaxTime.UnixMilli())
}

// Delete is annals.SnapshotStore. When it deletes the current snapshot and copies are left, the newest of them becomes the current one. So
// readers, the library among them, find the newest snapshot at one key.
func (s *snapshots) Delete(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	aid, err := aidOf(id)
	if err != nil {
		return err
	}
	var current, left plan.Item // left is the newest copy that stays
	var copies []plan.Item
	for it, err := range s.x.Query(ctx, plan.Query{Table: s.table, Hash: aid}) {
		if err != nil {
			return err
		}
		sn, err := s.read(id, it)
		place, _ := plan.Number(it, attrPlace)
		switch {
		case err != nil:
			return err
		case place == int64(currentPlace):
			if fits(sn, c) {
				current = it
			}
		case fits(sn, c):
			copies = append(copies, snapshotKey(aid, annals.SeqNr(place)))
		case !s.expired(it):
			left = it
		}
	}
	if current != nil {
		if err := s.replace(ctx, aid, current, left); err != nil {
			return err
		}
	}
	if len(copies) == 0 {
		return nil
	}
	return s.x.DeleteAll(ctx, s.table, copies)
}

// replace deletes the current snapshot, or replaces it with a copy, unless another save has replaced it.
func (s *snapshots) replace(ctx context.Context, aid string, current, with plan.Item) error {
	op := plan.Op{Table: s.table, Condition: "#seq = :seq AND #saved = :saved", Names: map[string]string{"#seq": attrSeq, "#saved": attrSaved},
		Values: plan.Item{":seq": current[attrSeq], ":saved": current[attrSaved]}}
	if with == nil {
		op.Key, op.Delete = snapshotKey(aid, currentPlace), true
	} else {
		op.Put = maps.Clone(with)
		op.Put[attrPlace] = plan.N(currentPlace)
		delete(op.Put, attrActive)
		delete(op.Put, attrExpiry)
	}
	_, err := s.x.Write(ctx, plan.Write{Ops: []plan.Op{op}, Refused: func([]plan.Item, bool) error { return nil }})
	return err
}

// read decodes an item. The number 0 is an error: the library's migration gives it to snapshots of tables
// of version 1, whose numbers it does not find.
func (s *snapshots) read(id annals.PersistenceID, it plan.Item) (annals.Snapshot, error) {
	d := plan.Decoder{Item: it}
	sn := annals.Snapshot{ID: id, SeqNr: annals.SeqNr(d.Required(attrSeq, 1, int64(maxSeqNr))), Time: time.UnixMilli(d.Required(attrSaved, math.MinInt64, math.MaxInt64)).UTC(), Payload: payload(&d)}
	if d.Fault != nil {
		return annals.Snapshot{}, corrupt(s.table, it, d.Fault, attrAID, attrPlace)
	}
	return sn, nil
}
