package commit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// maxSnapshotBytes is the most bytes of data in a snapshot. It bounds the memory for reading one.
const maxSnapshotBytes = 64 << 20

// Save is annals.SnapshotStore. The put is on condition that there is no snapshot of that number. If there is one, it is replaced, on condition
// of its save, and the parts of that save are removed. Without conditions a put that was sent twice could be executed for the second
// time after a later save, and replace it.
func (t *table) Save(ctx context.Context, s annals.Snapshot) error {
	if s.Time.IsZero() {
		s.Time = t.x.Now()
	}
	header, err := t.saveParts(ctx, s)
	if err != nil {
		return err
	}
	save, _ := plan.Bytes(header, attrSave)
	w := plan.Write{
		Ops: []plan.Op{{Table: t.name, Put: header, Condition: absent, Names: idName,
			Ours: func(old plan.Item) bool { b, _ := plan.Bytes(old, attrSave); return bytes.Equal(b, save) }}},
		Refused: plan.Expected,
		Once:    true,
	}
	var replaced record
	for {
		out, err := t.x.Write(ctx, w)
		if err != nil {
			return err
		}
		if !out.Refused {
			return t.deleteParts(ctx, replaced)
		}
		op := &w.Ops[0]
		op.Condition, op.Names, op.Values = absent, idName, nil
		if old := out.Old[0]; old != nil {
			if replaced, err = read(s.ID, old); err != nil {
				return err
			}
			if replaced.save == nil {
				return corrupt(s.SeqNr, errors.New("the stored snapshot has no id of its save"))
			}
			op.Condition, op.Names, op.Values = "#save = :save", map[string]string{"#save": attrSave}, plan.Item{":save": plan.B(replaced.save)}
		}
	}
}

// saveParts returns the item of s. Data that does not fit into one item is compressed, if that makes it smaller. If it still does not fit, it is
// written in parts, before the item itself.
func (t *table) saveParts(ctx context.Context, s annals.Snapshot) (plan.Item, error) {
	if len(s.Data) > maxSnapshotBytes {
		return nil, &annals.Error{Kind: annals.ErrTooLarge, Err: fmt.Errorf("a snapshot of %d bytes, the layout takes %d", len(s.Data), maxSnapshotBytes)}
	}
	save := make([]byte, saveBytes)
	t.newSave(save)
	it := plan.Item{attrID: plan.S(string(s.ID)), attrSeq: behind(s.SeqNr), attrFormat: plan.N(format), attrTime: plan.Micros(s.Time), attrSave: plan.B(save)}
	putPayload(it, s.Payload)
	putTags(it, s.Tags)
	putMeta(it, s.Metadata)
	if plan.Size(it) <= t.itemBytes {
		return it, nil
	}
	data := s.Data
	if zipped := plan.Compress(data); len(zipped) < len(data) {
		data, it[attrData], it[attrZip] = zipped, plan.B(zipped), plan.Bool(true)
		if plan.Size(it) <= t.itemBytes {
			return it, nil
		}
	}
	delete(it, attrData)
	count := 0
	for chunk := range slices.Chunk(data, t.itemBytes-t.itemBytes/100) { // the rest is for the key and the names
		p := partKey(s.ID, save, count)
		p[attrFormat], p[attrTime], p[attrData] = plan.N(format), plan.Micros(t.x.Now()), plan.B(chunk)
		if _, err := t.x.Write(ctx, plan.Write{Ops: []plan.Op{{Table: t.name, Put: p}}}); err != nil {
			return nil, err
		}
		count++
	}
	it[attrParts] = plan.N(count)
	return it, plan.Fits(it)
}

// Latest is annals.SnapshotStore.
func (t *table) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	q, some := snapshotQuery(c)
	if !some {
		return annals.Snapshot{}, false, nil
	}
	for {
		rec, ok, err := t.newestSnapshot(ctx, id, c, q)
		if !ok || err != nil {
			return annals.Snapshot{}, false, err
		}
		s, ok, err := t.load(ctx, rec)
		if ok || err != nil {
			return s, ok, err
		}
	}
}

// newestSnapshot returns the newest snapshot that q finds and that fits c.
func (t *table) newestSnapshot(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria, q plan.Query) (record, bool, error) {
	return plan.Newest(q, t.depths.limit(id), func(q plan.Query) iter.Seq2[record, error] {
		if !q.Backward {
			q.Filter, q.Names = standing, standingNames
		}
		return plan.Picked(t.records(ctx, id, q), func(rec record) (record, bool, error) { return rec, fits(rec, c), nil })
	})
}

// load reads a snapshot and its parts, if it has any. When parts are missing, it reads the item again: another save may have replaced the
// snapshot, or it may have been deleted, and the parts are removed last. It returns false for a deleted snapshot.
func (t *table) load(ctx context.Context, rec record) (annals.Snapshot, bool, error) {
	for {
		s, complete, err := t.loadParts(ctx, rec)
		if complete || err != nil {
			return s, complete, err
		}
		it, ok, err := t.x.Get(ctx, plan.Get{Table: t.name, Key: snapshotKey(rec)})
		if !ok || err != nil {
			return annals.Snapshot{}, false, err
		}
		now, err := read(rec.id, it)
		switch {
		case err != nil || now.gone:
			return annals.Snapshot{}, false, err
		case bytes.Equal(now.save, rec.save):
			return annals.Snapshot{}, false, corrupt(rec.seq, damaged(true, rec.seq, errors.New("parts of the snapshot are missing")))
		}
		rec = now
	}
}

// loadParts returns the snapshot of rec. It is not complete when parts are missing.
func (t *table) loadParts(ctx context.Context, rec record) (s annals.Snapshot, complete bool, err error) {
	d := decode(rec.item)
	s = annals.Snapshot{ID: rec.id, SeqNr: rec.seq, Time: rec.at, Payload: d.payload(), Tags: d.Texts(attrTags), Metadata: d.meta()}
	zipped := d.Flag(attrZip)
	if rec.parts > 0 && rec.save == nil {
		d.Wrong(attrSave)
	}
	if d.Fault != nil {
		return s, false, corrupt(rec.seq, damaged(true, rec.seq, d.Fault))
	}
	if rec.parts > 0 {
		s.Data = nil
		found := 0
		for it, err := range t.x.Query(ctx, plan.Query{Table: t.name, Hash: string(rec.id), From: part(rec.save, rec.parts-1), To: part(rec.save, 0), Backward: true}) {
			if err != nil {
				return s, false, err
			}
			chunk, ok := plan.Bytes(it, attrData)
			if !ok || len(s.Data)+len(chunk) > maxSnapshotBytes+maxSnapshotBytes/1000 { // compressed data can be a little longer than the original
				return s, false, corrupt(rec.seq, damaged(true, rec.seq, errors.New("a part of the snapshot is not what the layout writes")))
			}
			s.Data = append(s.Data, chunk...)
			found++
		}
		if found != rec.parts {
			return s, false, nil
		}
	}
	if zipped {
		if s.Data, err = plan.Decompress(s.Data, maxSnapshotBytes); err != nil {
			return s, false, corrupt(rec.seq, damaged(true, rec.seq, err))
		}
	}
	return s, true, nil
}

// Delete is annals.SnapshotStore. It deletes the oldest first, each on condition that it has not been saved again. A deleted snapshot leaves a
// tombstone: otherwise a put that was sent twice could be executed for the second time now, and restore it.
func (t *table) Delete(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	q, some := snapshotQuery(c)
	if !some {
		return nil
	}
	q.Fields = []string{attrSeq, attrFormat, attrTime, attrSave, attrParts}
	q.Filter, q.Names = standing, standingNames
	for rec, err := range t.records(ctx, id, q) {
		if err != nil {
			return err
		}
		if !fits(rec, c) {
			continue
		}
		u := plan.NewUpdate()
		u.SetTo(attrFormat, u.Value(plan.N(formatGone)))
		u.SetTo(attrDeleted, u.Value(plan.Bool(true)))
		u.SetTo(attrErased, u.Value(plan.Micros(t.x.Now())))
		u.Remove(attrSerializer, attrManifest, attrData, attrTags, attrMeta, attrZip, attrParts)
		out, err := plan.Try(ctx, t.x, plan.Op{Table: t.name, Key: snapshotKey(rec), Update: u.Expression(),
			Condition: u.Name(attrSave) + " = " + u.Value(plan.B(rec.save)), Names: u.Names, Values: u.Values}) // or it was saved again, or forgotten
		if err != nil {
			return err
		}
		if !out.Refused {
			if err := t.deleteParts(ctx, rec); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *table) deleteParts(ctx context.Context, rec record) error {
	if rec.parts == 0 || rec.save == nil {
		return nil
	}
	keys := make([]plan.Item, rec.parts)
	for i := range keys {
		keys[i] = partKey(rec.id, rec.save, i)
	}
	return t.x.DeleteAll(ctx, t.name, keys)
}

// standing is a filter for snapshots that are not deleted.
const standing = "attribute_exists(#save) AND attribute_not_exists(#gone)"

var standingNames = map[string]string{"#save": attrSave, "#gone": attrDeleted}

// snapshotQuery returns the query for snapshots whose numbers fit c, which also finds the commits between them. It returns false when no
// number fits.
func snapshotQuery(c annals.SnapshotCriteria) (plan.Query, bool) {
	q := plan.Query{From: behind(max(c.MinSeqNr, 0))}
	if c.MaxSeqNr > 0 {
		q.To = behind(c.MaxSeqNr)
	}
	return q, c.MaxSeqNr == 0 || c.MinSeqNr <= c.MaxSeqNr
}

// fits reports whether rec, whose number fits c, is a snapshot with a time that fits c.
func fits(rec record, c annals.SnapshotCriteria) bool {
	return rec.snapshot && !rec.gone && plan.InTime(c, rec.at, 0)
}

func snapshotKey(rec record) plan.Item {
	return plan.Item{attrID: plan.S(string(rec.id)), attrSeq: behind(rec.seq)}
}
