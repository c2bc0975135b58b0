package commit

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// partBytes is what one part of a large snapshot holds; key and names take the rest of the item.
const partBytes = plan.MaxItemBytes - 4<<10

// Save is plan.Snapshots. An older save of the same number is replaced, and its parts removed behind it.
func (t *table) Save(ctx context.Context, x plan.Executor, s annals.Snapshot) error {
	header, err := t.saveParts(ctx, x, s)
	if err != nil {
		return err
	}
	out, err := x.Write(ctx, plan.Write{Ops: []plan.Op{{Table: t.name, Put: header}}, ReturnOld: true})
	if err != nil {
		return err
	}
	old := record{id: s.ID, item: out.Old[0]}
	if bytes.Equal(saveOf(old), saveOf(record{item: header})) {
		return nil // this very save: its first answer was lost
	}
	return t.deleteParts(ctx, x, old)
}

// saveParts returns the item of s. What does not fit into one item is compressed; what still does not is written in parts,
// before the item that names them.
func (t *table) saveParts(ctx context.Context, x plan.Executor, s annals.Snapshot) (plan.Item, error) {
	save := make([]byte, 8)
	_, _ = rand.Read(save) // never fails, as crypto/rand documents
	it := plan.Item{attrID: plan.S(string(s.ID)), attrSeq: behind(s.SeqNr), attrFormat: plan.N(format), attrTime: plan.Micros(s.Time), attrSave: plan.B(save)}
	putPayload(it, s.Payload)
	putTags(it, s.Tags)
	putMeta(it, s.Metadata)
	if plan.Size(it) <= plan.MaxItemBytes {
		return it, nil
	}
	data := compress(s.Data)
	it[attrData], it[attrZip] = plan.B(data), plan.Bool(true)
	if plan.Size(it) <= plan.MaxItemBytes {
		return it, nil
	}
	delete(it, attrData)
	count := 0
	for chunk := range slices.Chunk(data, partBytes) {
		if count == maxParts {
			return nil, &annals.Error{Kind: annals.ErrTooLarge, Err: fmt.Errorf("a snapshot of %d bytes, compressed", len(data))}
		}
		p := partKey(s.ID, save, count)
		p[attrFormat], p[attrTime], p[attrData] = plan.N(format), plan.Micros(x.Now()), plan.B(chunk)
		if _, err := x.Write(ctx, plan.Write{Ops: []plan.Op{{Table: t.name, Put: p}}}); err != nil {
			return nil, err
		}
		count++
	}
	it[attrParts] = plan.N(count)
	return it, plan.Fits(it)
}

// Latest is plan.Snapshots.
func (t *table) Latest(ctx context.Context, x plan.Executor, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	q, some := t.snapshotQuery(id, c)
	if !some {
		return annals.Snapshot{}, false, nil
	}
	q.Backward, q.Limit = true, t.depth.limit()
	var lost [][]byte
	for {
		again := false
		for it, err := range x.Query(ctx, q) {
			if err != nil {
				return annals.Snapshot{}, false, err
			}
			rec, err := read(id, it)
			if err != nil {
				return annals.Snapshot{}, false, err
			}
			if !rec.snapshot || !inTime(rec, c) || among(lost, saveOf(rec)) {
				continue
			}
			s, ok, err := t.load(ctx, x, rec)
			if ok || err != nil {
				return s, ok, err
			}
			lost = append(lost, saveOf(rec))
			again = true
			break
		}
		if !again {
			return annals.Snapshot{}, false, nil
		}
	}
}

// load reads the parts of a snapshot, if it has any. false: a part is missing, so the snapshot was replaced or deleted
// meanwhile; parts go last.
func (t *table) load(ctx context.Context, x plan.Executor, rec record) (annals.Snapshot, bool, error) {
	s := annals.Snapshot{ID: rec.id, SeqNr: rec.seq, Time: rec.at, Payload: payload(rec.item), Tags: tags(rec.item)}
	if meta, ok := mapOf(rec.item, attrMeta); ok {
		s.Metadata = payload(meta)
	}
	if parts, ok := plan.Number(rec.item, attrParts); ok {
		s.Data = nil
		save, count := saveOf(rec), int(parts)
		next := 0
		for it, err := range x.Query(ctx, plan.Query{Table: t.name, Hash: string(rec.id), From: part(save, maxParts-1), To: part(save, 0), Backward: true}) {
			if err != nil {
				return annals.Snapshot{}, false, err
			}
			chunk, _ := plan.Bytes(it, attrData)
			s.Data = append(s.Data, chunk...)
			next++
		}
		if next != count {
			return annals.Snapshot{}, false, nil
		}
	}
	if plan.Flag(rec.item, attrZip) {
		data, err := decompress(s.Data)
		if err != nil {
			return annals.Snapshot{}, false, corrupt(rec.seq, err)
		}
		s.Data = data
	}
	return s, true, nil
}

// Delete is plan.Snapshots: the oldest first, each on condition that it is still the one listed.
func (t *table) Delete(ctx context.Context, x plan.Executor, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	q, some := t.snapshotQuery(id, c)
	if !some {
		return nil
	}
	q.Fields = []string{attrSeq, attrFormat, attrTime, attrSave, attrParts}
	q.Filter, q.Names = "attribute_exists(#save)", map[string]string{"#save": attrSave}
	var found []record
	for it, err := range x.Query(ctx, q) {
		if err != nil {
			return err
		}
		rec, err := read(id, it)
		if err != nil {
			return err
		}
		if inTime(rec, c) {
			found = append(found, rec)
		}
	}
	for _, rec := range found {
		out, err := x.Write(ctx, plan.Write{
			Ops: []plan.Op{{Table: t.name, Key: plan.Item{attrID: plan.S(string(id)), attrSeq: behind(rec.seq)}, Delete: true,
				Condition: "#save = :save", Names: map[string]string{"#save": attrSave}, Values: plan.Item{":save": plan.B(saveOf(rec))}}},
			Refused: func([]plan.Item, bool) error { return nil }, // saved again, or deleted by somebody else
		})
		if err != nil {
			return err
		}
		if !out.Refused {
			if err := t.deleteParts(ctx, x, rec); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *table) deleteParts(ctx context.Context, x plan.Executor, rec record) error {
	count, ok := plan.Number(rec.item, attrParts)
	if !ok {
		return nil
	}
	keys := make([]plan.Item, count)
	for i := range keys {
		keys[i] = partKey(rec.id, saveOf(rec), i)
	}
	return x.DeleteAll(ctx, t.name, keys)
}

// snapshotQuery finds the snapshots whose numbers fit c, and the commits between them; false when no number can.
func (t *table) snapshotQuery(id annals.PersistenceID, c annals.SnapshotCriteria) (plan.Query, bool) {
	q := plan.Query{Table: t.name, Hash: string(id), From: behind(max(c.MinSeqNr, 0))}
	if c.MaxSeqNr > 0 {
		q.To = behind(c.MaxSeqNr)
	}
	return q, c.MaxSeqNr == 0 || c.MinSeqNr <= c.MaxSeqNr
}

func inTime(rec record, c annals.SnapshotCriteria) bool {
	return rec.snapshot && !rec.at.Before(c.MinTime) && (c.MaxTime.IsZero() || !rec.at.After(c.MaxTime))
}

// saveOf is the id of a snapshot's save; nil for no item.
func saveOf(rec record) []byte {
	b, _ := plan.Bytes(rec.item, attrSave)
	return b
}

func among(saves [][]byte, save []byte) bool {
	return slices.ContainsFunc(saves, func(s []byte) bool { return bytes.Equal(s, save) })
}

func compress(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data) // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

func decompress(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
