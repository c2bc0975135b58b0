package commit

import (
	"context"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// deletedAhead is the most commits that a delete lists, and keeps in memory, before it deletes the first.
const deletedAhead = 1000

// DeleteTo is annals.Journal. Whole commits become tombstones, in ascending order, each after the one before has been acknowledged. At last the
// events up to to are removed from the commit that contains to. So events are deleted in the order in which readers read them, and an
// interrupted delete has deleted a prefix.
func (t *table) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	last, err := t.LastSeqNr(ctx, id)
	if err != nil {
		return err
	}
	if to = min(to, last); to == 0 {
		return nil
	}
	d := deletion{table: t, id: id, to: to}
	held, complete, err := d.newest(ctx)
	if err != nil {
		return err
	}
	if !complete {
		return d.ascending(ctx, held[len(held)-1].seq)
	}
	for _, rec := range slices.Backward(held) {
		if err := d.remove(ctx, rec); err != nil {
			return err
		}
	}
	return nil
}

// deletion is one call of DeleteTo.
type deletion struct {
	*table
	id annals.PersistenceID
	to annals.SeqNr
}

// newest lists the commits that have events up to d.to, newest first, back to the first deleted one. It is not complete when there are more
// than deletedAhead. Usually one small page has all of them, because the commits before are deleted.
func (d deletion) newest(ctx context.Context) (held []record, complete bool, err error) {
	for rec, err := range d.records(ctx, d.id, plan.Query{From: plan.N(1), To: plan.N(d.to), Backward: true, Fields: keyFields, Limit: 64}) {
		if err != nil {
			return nil, false, err
		}
		if rec.snapshot {
			continue
		}
		if rec.from > d.to || rec.tombstone() {
			return held, true, nil
		}
		if len(held) == deletedAhead {
			return held, false, nil
		}
		rec.item = nil
		held = append(held, rec)
		if rec.deleted() {
			return held, true, nil
		}
	}
	return held, true, nil
}

// ascending deletes while it reads. The deleted commits are a prefix, and a binary search below the number below, of a commit that is not
// deleted, finds its end.
func (d deletion) ascending(ctx context.Context, below annals.SeqNr) error {
	from := annals.SeqNr(1)
	for from < below {
		middle := from + (below-from)/2
		rec, ok, err := d.table.newest(ctx, d.id, plan.Query{To: plan.N(middle), Fields: keyFields})
		if err != nil {
			return err
		}
		if !ok || rec.tombstone() {
			from = middle + 1
		} else {
			below = rec.seq
		}
	}
	for rec, err := range d.records(ctx, d.id, plan.Query{From: plan.N(below), To: plan.N(d.to), Fields: keyFields}) {
		if err != nil {
			return err
		}
		if rec.snapshot || rec.tombstone() {
			continue
		}
		if err := d.remove(ctx, rec); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the events of a commit up to d.to.
func (d deletion) remove(ctx context.Context, rec record) error {
	if rec.last() > d.to {
		return d.cut(ctx, rec.seq)
	}
	_, err := plan.Try(ctx, d.x, stripOp(d.name, rec))
	return err
}

// stripOp turns a commit into a tombstone, on condition of its WriteID: the entity may have been forgotten, and written again, since the commit
// was listed, and an update would create an item where there is none.
func stripOp(table string, rec record) plan.Op {
	values := plan.Item{":end": plan.N(rec.last() + 1), ":w": plan.B(rec.write[:])}
	return plan.Op{Table: table, Key: key(rec.id, rec.seq), Update: "SET #from = :end, #del = :now REMOVE #ev", Condition: "#w = :w",
		Names:  map[string]string{"#w": attrWrite, "#from": attrFrom, "#ev": attrEvents, "#del": attrErased},
		Values: values,
		Stamp:  func(now time.Time) { values[":now"] = plan.Micros(now) }}
}

// cut removes the events up to d.to from the commit at seq, unless more of them have been deleted already.
func (d deletion) cut(ctx context.Context, seq annals.SeqNr) error {
	it, ok, err := d.x.Get(ctx, plan.Get{Table: d.name, Key: key(d.id, seq)})
	if !ok || err != nil {
		return err
	}
	rec, err := read(d.id, it)
	if err != nil || rec.from > d.to {
		return err
	}
	list, err := rec.list()
	if err != nil {
		return err
	}
	if rec.last() <= d.to {
		return nil // of a later life of the entity
	}
	_, err = plan.Try(ctx, d.x, plan.Op{Table: d.name, Key: key(d.id, seq), Update: "SET #from = :from, #ev = :rest",
		Condition: "#w = :w AND (attribute_not_exists(#from) OR #from <= :to)", // or another delete has deleted more
		Names:     map[string]string{"#w": attrWrite, "#from": attrFrom, "#ev": attrEvents},
		Values:    plan.Item{":from": plan.N(d.to + 1), ":to": plan.N(d.to), ":w": plan.B(rec.write[:]), ":rest": plan.L(list[d.to+1-rec.from:]...)}})
	return err
}
