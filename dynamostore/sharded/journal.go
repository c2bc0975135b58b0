package sharded

import (
	"context"
	"iter"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/akkawire"
)

// journal is the journal table at work: plan.Journal.
type journal struct {
	name, index  string
	columns      JournalColumns
	tagSeparator string
	hard         bool
	rows         rows
}

func (j *journal) table() plan.Table {
	return plan.Table{Name: j.name, Hash: j.rows.resolver.hashKey(), Range: j.rows.resolver.rangeKey(), Stream: true,
		Indexes: []plan.Index{{Name: j.index, Hash: plan.Key{Name: j.columns.PersistenceID}, Range: plan.Key{Name: j.columns.SequenceNr, Number: true}}}}
}

func (j *journal) check(ctx context.Context, x plan.Executor, created bool) error {
	if created {
		return nil
	}
	return j.rows.check(ctx, x)
}

// Append is plan.Journal: every event is a row that must be new, several go as one transaction.
func (j *journal) Append(ctx context.Context, x plan.Executor, c annals.Commit) (annals.Receipt, error) {
	now := x.Now()
	ours := func(old plan.Item) bool { return j.writtenBy(old, c) }
	w := plan.Write{Ops: make([]plan.Op, len(c.Events)), Refused: func(old []plan.Item, _ bool) error { return j.refusal(c, old) }}
	for i := range c.Events {
		it, err := j.eventItem(c, c.After+1+annals.SeqNr(i), &c.Events[i], now)
		if err != nil {
			return annals.Receipt{}, err
		}
		w.Ops[i] = plan.Op{Table: j.name, Put: it, Condition: "attribute_not_exists(#pkey)", Names: map[string]string{"#pkey": j.columns.PartitionKey}, Ours: ours}
	}
	out, err := x.Write(ctx, w)
	if err != nil {
		return annals.Receipt{}, err
	}
	r := annals.Receipt{SeqNr: c.After + annals.SeqNr(len(c.Events)), Time: millis(w.Ops[0].Put, j.columns.Ordering)}
	if out.Repeated {
		r.Repeated = true
		for _, old := range out.Old {
			if old != nil {
				r.Time = millis(old, j.columns.Ordering)
				break
			}
		}
	}
	return r, nil
}

func (j *journal) writtenBy(old plan.Item, c annals.Commit) bool {
	if id, _ := plan.Text(old, j.columns.PersistenceID); id != string(c.ID) {
		return false
	}
	return j.writer(old) == c.WriteID.String()
}

func (j *journal) refusal(c annals.Commit, old []plan.Item) error {
	for _, it := range old {
		if err := collision(c.ID, it, j.columns.PersistenceID); err != nil {
			return err
		}
	}
	return &annals.Error{Kind: annals.ErrConflict, After: c.After}
}

// Replay is plan.Journal. Unused numbers are legal in these tables: a rejected event of the JVM leaves one behind. Whether
// numbers behind a yielded event have been deleted since is seen at that event: rows are deleted in ascending order, so it
// went first.
func (j *journal) Replay(ctx context.Context, x plan.Executor, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		var before plan.Item // the row of the event yielded last
		var last annals.SeqNr
		for it, err := range j.rows.read(ctx, x, wanted{id: id, from: from, to: to}) {
			if err != nil {
				yield(annals.Event{}, err)
				return
			}
			e, live, err := j.event(it)
			if err != nil {
				yield(annals.Event{}, err)
				return
			}
			if before != nil && (!live || e.SeqNr != last+1) {
				gone, err := j.gone(ctx, x, before)
				if err == nil && gone {
					err = &annals.Error{Kind: annals.ErrTruncated}
				}
				if err != nil {
					yield(annals.Event{}, err)
					return
				}
				before = nil // it stands: what is missing here was missing before
			}
			if !live {
				continue
			}
			if !yield(e, nil) {
				return
			}
			before, last = it, e.SeqNr
		}
	}
}

// gone reports whether a row has been deleted since it was read.
func (j *journal) gone(ctx context.Context, x plan.Executor, row plan.Item) (bool, error) {
	it, ok, err := x.Get(ctx, plan.Get{Table: j.name, Key: j.rows.resolver.keyOf(row)})
	return !ok || plan.Flag(it, j.columns.Deleted), err
}

// LastSeqNr is plan.Journal: flagged rows count.
func (j *journal) LastSeqNr(ctx context.Context, x plan.Executor, id annals.PersistenceID) (annals.SeqNr, error) {
	return j.rows.newest(ctx, x, id)
}

// DeleteTo is plan.Journal: rows are flagged, or removed, under the key that they were read with, in ascending order. The
// newest row is always kept: it is the entity's last number.
func (j *journal) DeleteTo(ctx context.Context, x plan.Executor, id annals.PersistenceID, to annals.SeqNr) error {
	last, err := j.LastSeqNr(ctx, x, id)
	if err != nil {
		return err
	}
	type row struct {
		key plan.Item
		n   annals.SeqNr
	}
	var found []row
	if to = min(to, last); to == 0 {
		return nil
	}
	for it, err := range j.rows.read(ctx, x, wanted{id: id, from: 1, to: to, fields: []string{j.columns.Deleted}, all: true}) {
		if err != nil {
			return err
		}
		if n := j.rows.numberOf(it); !plan.Flag(it, j.columns.Deleted) || j.hard && n < last {
			found = append(found, row{j.rows.resolver.keyOf(it), n})
		}
	}
	for _, r := range found {
		op := plan.Op{Table: j.name, Key: r.key, Condition: "#id = :id", Names: map[string]string{"#id": j.columns.PersistenceID}, Values: plan.Item{":id": plan.S(string(id))}}
		if op.Delete = j.hard && r.n < last; !op.Delete {
			op.Update = "SET #deleted = :true"
			op.Names["#deleted"], op.Values[":true"] = j.columns.Deleted, plan.Bool(true)
		}
		if _, err := x.Write(ctx, plan.Write{Ops: []plan.Op{op}, Refused: func([]plan.Item, bool) error { return nil }}); err != nil {
			return err
		}
	}
	return nil
}

// SkipTo is plan.Rooms: rows for the numbers 1 and n that are flagged as deleted, as the plugin's deletes leave them: the last
// number, and what stands in the way of a first event.
func (j *journal) SkipTo(ctx context.Context, x plan.Executor, id annals.PersistenceID, n annals.SeqNr) error {
	last, err := j.LastSeqNr(ctx, x, id)
	if err != nil {
		return err
	}
	skipped := func(old plan.Item) bool { return plan.Flag(old, j.columns.Deleted) && j.writer(old) == "" }
	if last == n {
		old, err := j.rows.byKey(ctx, x, id, n, n)
		if err != nil || len(old) == 1 && skipped(old[0]) {
			return err
		}
	}
	if last != 0 {
		return &annals.Error{Kind: annals.ErrConflict, Last: last}
	}
	w := plan.Write{Refused: func(old []plan.Item, _ bool) error { return j.refusal(annals.Commit{ID: id}, old) }}
	for _, number := range slices.Compact([]annals.SeqNr{1, n}) {
		it, err := j.rows.resolver.key(id, number)
		if err != nil {
			return err
		}
		it[j.columns.PersistenceID] = plan.S(string(id))
		it[j.columns.SequenceNr] = plan.N(number)
		it[j.columns.Deleted] = plan.Bool(true)
		it[j.columns.Ordering] = plan.N(x.Now().UnixMilli())
		it[j.columns.Message] = plan.B(akkawire.Record{Payload: annals.Payload{SerializerID: bytesSerializer}, SeqNr: number, ID: id}.Append(nil))
		w.Ops = append(w.Ops, plan.Op{Table: j.name, Put: it, Condition: "attribute_not_exists(#pkey)", Names: map[string]string{"#pkey": j.columns.PartitionKey}, Ours: skipped})
	}
	_, err = x.Write(ctx, w)
	return err
}

// bytesSerializer is Akka's for plain bytes.
const bytesSerializer = 4
