package akka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/akkakeys"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/akkawire"
)

// The attributes of a snapshot. attrPar is the partition key, as in the journal.
const (
	attrSnapshotSeq      = "seq"
	attrSnapshotTime     = "ts"
	attrSnapshotData     = "pay_data"
	attrSnapshotID       = "ser_id"
	attrSnapshotManifest = "ser_manifest"
)

// snapshotOverhead is what the plugin adds to the bytes of a snapshot and the length of its key for names and other attributes.
const snapshotOverhead = 253

// snapshots is the snapshot table. It is an annals.SnapshotStore.
type snapshots struct {
	x           plan.Executor
	table, name string
	named       akkakeys.Journal // the names of the journals in the table
	index       string           // orders the snapshots of an entity by time
	old         bool             // writes the payload with a header, in attrPay
	byTime      bool
}

func (l Layout) snapshots(journal string) *snapshots {
	c := l.Snapshot
	s := &snapshots{table: cmp.Or(c.Table, "akka-persistence-snapshot"), name: cmp.Or(c.Name, journal), index: cmp.Or(c.Index, "ts-idx"), old: c.Old, byTime: c.ByTime}
	s.named = akkakeys.Journal{Table: s.table, Hash: attrPar, Name: s.name, Others: l.Journal.OtherNames}
	return s
}

// shape is the table of the plugin.
func (s *snapshots) shape() plan.Table {
	hash := plan.Key{Name: attrPar}
	return plan.Table{Name: s.table, Hash: hash, Range: plan.Key{Name: attrSnapshotSeq, Number: true},
		Indexes: []plan.Index{{Name: s.index, Hash: hash, Range: plan.Key{Name: attrSnapshotTime, Number: true}, Local: true}}}
}

// partition returns the partition key of the snapshots of id.
func (s *snapshots) partition(id annals.PersistenceID) string {
	return s.name + akkakeys.Events + string(id)
}

func (s *snapshots) Save(ctx context.Context, sn annals.Snapshot) error {
	par, p := s.partition(sn.ID), sn.Payload
	if sn.Time.IsZero() {
		sn.Time = s.x.Now()
	}
	it := plan.Item{attrPar: plan.S(par), attrSnapshotSeq: plan.N(sn.SeqNr), attrSnapshotTime: plan.N(sn.Time.UnixMilli())}
	size := snapshotOverhead + utf16Len(par)
	if s.old {
		if err := akkawire.SnapshotFault(p); err != nil {
			return plan.Misfit("%w", err)
		}
		pay := akkawire.AppendSnapshot(nil, p)
		it[attrPay] = plan.B(pay)
		size += len(pay)
	} else {
		it[attrSnapshotData], it[attrSnapshotID] = plan.B(p.Data), plan.N(p.SerializerID)
		putText(it, attrSnapshotManifest, p.Manifest)
		size += len(p.Data)
	}
	if size > maxPluginSize {
		return &annals.Error{Kind: annals.ErrTooLarge, Err: fmt.Errorf("a snapshot of %d bytes, as the plugin counts them; the plugin takes %d", size, maxPluginSize)}
	}
	_, err := s.x.Write(ctx, plan.Write{Ops: []plan.Op{{Table: s.table, Put: it}}})
	return err
}

// Latest is annals.SnapshotStore. With byTime and no bound of numbers it is the newest by time, which is what the plugin loads.
func (s *snapshots) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	q := s.query(id, c)
	if s.byTime && c.MinSeqNr < 1 && (c.MaxSeqNr == 0 || c.MaxSeqNr == annals.MaxSeqNr) {
		q.Index, q.From, q.To = s.index, plan.N(int64(math.MinInt64)), plan.N(int64(math.MaxInt64))
		if !c.MinTime.IsZero() {
			q.From = plan.N(c.MinTime.UnixMilli())
		}
		if !c.MaxTime.IsZero() {
			q.To = plan.N(c.MaxTime.UnixMilli())
		}
	}
	it, ok, err := plan.Newest(q, 1, func(q plan.Query) iter.Seq2[plan.Item, error] { return s.fitting(ctx, q, c) })
	if !ok || err != nil {
		return annals.Snapshot{}, false, err
	}
	return s.snapshot(id, it)
}

// Delete is annals.SnapshotStore. It deletes the oldest first, each on condition that it has not been replaced.
func (s *snapshots) Delete(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	q := s.query(id, c)
	q.Fields = []string{attrPar, attrSnapshotSeq, attrSnapshotTime}
	for it, err := range s.fitting(ctx, q, c) {
		if err != nil {
			return err
		}
		op := plan.Op{Table: s.table, Key: plan.Item{attrPar: it[attrPar], attrSnapshotSeq: it[attrSnapshotSeq]}, Delete: true,
			Condition: "#ts = :ts", Names: map[string]string{"#ts": attrSnapshotTime}, Values: plan.Item{":ts": it[attrSnapshotTime]}}
		if _, err := plan.Try(ctx, s.x, op); err != nil {
			return err
		}
	}
	return nil
}

// query is the query for the numbers of c.
func (s *snapshots) query(id annals.PersistenceID, c annals.SnapshotCriteria) plan.Query {
	from, to, _ := plan.Numbers(c, 0)
	return plan.Query{Table: s.table, Hash: s.partition(id), From: plan.N(from), To: plan.N(to)}
}

// fitting yields the items of q whose times fit c.
func (s *snapshots) fitting(ctx context.Context, q plan.Query, c annals.SnapshotCriteria) iter.Seq2[plan.Item, error] {
	if _, _, some := plan.Numbers(c, 0); !some {
		return func(func(plan.Item, error) bool) {}
	}
	return plan.Picked(s.x.Query(ctx, q), func(it plan.Item) (plan.Item, bool, error) {
		at, ok := plan.Number(it, attrSnapshotTime)
		if !ok {
			return nil, false, s.corrupt(it, fmt.Errorf("attribute %q is not a whole number", attrSnapshotTime))
		}
		return it, plan.InTime(c, time.UnixMilli(at), time.Millisecond), nil
	})
}

// snapshot decodes an item. An item with attrSnapshotData is of the new format.
func (s *snapshots) snapshot(id annals.PersistenceID, it plan.Item) (annals.Snapshot, bool, error) {
	d := plan.Decoder{Item: it}
	sn := annals.Snapshot{ID: id, SeqNr: annals.SeqNr(d.Required(attrSnapshotSeq, 0, math.MaxInt64)),
		Time: time.UnixMilli(d.Required(attrSnapshotTime, math.MinInt64, math.MaxInt64)).UTC()}
	var err error
	if it[attrSnapshotData] != nil {
		sn.Payload = annals.Payload{Data: d.Bytes(attrSnapshotData), Manifest: d.Text(attrSnapshotManifest),
			SerializerID: int32(d.Required(attrSnapshotID, math.MinInt32, math.MaxInt32))}
	} else {
		d.Require(attrPay)
		if pay := d.Bytes(attrPay); d.Fault == nil {
			sn.Payload, err = akkawire.ParseSnapshot(pay)
		}
	}
	if err = errors.Join(d.Fault, err); err != nil {
		return annals.Snapshot{}, false, s.corrupt(it, err)
	}
	return sn, true, nil
}

func (s *snapshots) corrupt(it plan.Item, err error) error {
	return plan.Corrupt(s.table, s.shape().KeyOf(it), err)
}
