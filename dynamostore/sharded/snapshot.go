package sharded

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/akkawire"
)

// snapshots is the snapshot table at work: plan.Snapshots.
type snapshots struct {
	name, index string
	columns     SnapshotColumns
	legacy      bool
	rows        rows
}

func (s *snapshots) table() plan.Table {
	t := plan.Table{Name: s.name, Hash: s.rows.resolver.hashKey(), Range: s.rows.resolver.rangeKey()}
	if !s.legacy {
		t.Indexes = []plan.Index{{Name: s.index, Hash: plan.Key{Name: s.columns.PersistenceID}, Range: plan.Key{Name: s.columns.SequenceNr, Number: true}}}
	}
	return t
}

// metadata is an attribute of ours, only on snapshots that have metadata: the plugin keeps none and ignores it.
const metadata = "annals-metadata"

// Save is plan.Snapshots. A snapshot of the same number is replaced, another id's row is not.
func (s *snapshots) Save(ctx context.Context, x plan.Executor, sn annals.Snapshot) error {
	it, err := s.rows.resolver.key(sn.ID, sn.SeqNr)
	if err != nil {
		return err
	}
	it[s.columns.PersistenceID] = plan.S(string(sn.ID))
	it[s.columns.SequenceNr] = plan.N(sn.SeqNr)
	it[s.columns.Snapshot] = plan.B(akkawire.AppendSnapshot(nil, sn.Payload))
	it[s.columns.Created] = plan.N(sn.Time.UnixMilli())
	if sn.Metadata.SerializerID != 0 {
		it[metadata] = plan.B(akkawire.AppendSnapshot(nil, sn.Metadata))
	}
	op := plan.Op{Table: s.name, Put: it}
	if !s.legacy {
		op.Condition = "attribute_not_exists(#id) OR #id = :id"
		op.Names, op.Values = map[string]string{"#id": s.columns.PersistenceID}, plan.Item{":id": plan.S(string(sn.ID))}
	}
	_, err = x.Write(ctx, plan.Write{Ops: []plan.Op{op}, Refused: func(old []plan.Item, _ bool) error {
		return collision(sn.ID, old[0], s.columns.PersistenceID)
	}})
	return err
}

// Latest is plan.Snapshots.
func (s *snapshots) Latest(ctx context.Context, x plan.Executor, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	from, to := bounds(c)
	if from > to {
		return annals.Snapshot{}, false, nil
	}
	for it, err := range s.rows.read(ctx, x, wanted{id: id, from: from, to: to, backward: true, limit: 1}) {
		if err != nil {
			return annals.Snapshot{}, false, err
		}
		if !s.inTime(it, c) {
			continue
		}
		n := s.rows.numberOf(it)
		data, _ := plan.Bytes(it, s.columns.Snapshot)
		p, err := akkawire.ParseSnapshot(data)
		if err != nil {
			return annals.Snapshot{}, false, corrupt(n, err)
		}
		found := annals.Snapshot{ID: id, SeqNr: n, Time: millis(it, s.columns.Created), Payload: p}
		if data, ok := plan.Bytes(it, metadata); ok {
			if found.Metadata, err = akkawire.ParseSnapshot(data); err != nil {
				return annals.Snapshot{}, false, corrupt(n, err)
			}
		}
		return found, true, nil
	}
	return annals.Snapshot{}, false, nil
}

// Delete is plan.Snapshots: the oldest first, under the key that each was read with, on condition that it is still the one
// that was read.
func (s *snapshots) Delete(ctx context.Context, x plan.Executor, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	from, to := bounds(c)
	if from > to {
		return nil
	}
	var found []plan.Item
	for it, err := range s.rows.read(ctx, x, wanted{id: id, from: from, to: to, fields: []string{s.columns.Created}}) {
		if err != nil {
			return err
		}
		if s.inTime(it, c) {
			found = append(found, it)
		}
	}
	for _, it := range found {
		op := plan.Op{Table: s.name, Key: s.rows.resolver.keyOf(it), Delete: true, Condition: "#id = :id AND #created = :created",
			Names:  map[string]string{"#id": s.columns.PersistenceID, "#created": s.columns.Created},
			Values: plan.Item{":id": plan.S(string(id)), ":created": it[s.columns.Created]}}
		if _, err := x.Write(ctx, plan.Write{Ops: []plan.Op{op}, Refused: func([]plan.Item, bool) error { return nil }}); err != nil {
			return err
		}
	}
	return nil
}

// inTime compares in milliseconds, which is what a row knows.
func (s *snapshots) inTime(it plan.Item, c annals.SnapshotCriteria) bool {
	at, _ := plan.Number(it, s.columns.Created)
	return (c.MinTime.IsZero() || at >= c.MinTime.UnixMilli()) && (c.MaxTime.IsZero() || at <= c.MaxTime.UnixMilli())
}

func bounds(c annals.SnapshotCriteria) (from, to annals.SeqNr) {
	if to = c.MaxSeqNr; to == 0 {
		to = annals.MaxSeqNr
	}
	return max(c.MinSeqNr, 0), to
}
