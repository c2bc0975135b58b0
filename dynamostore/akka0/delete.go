package akka0

import (
	"context"
	"iter"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

func (j *journal) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	counted, last, err := j.last(ctx, id)
	if err != nil {
		return err
	}
	return deletion{j, id, j.permanent, counted}.run(ctx, j.stored(ctx, id, 1, min(to, last)))
}

// deletion deletes events of an entity.
type deletion struct {
	*journal
	id        annals.PersistenceID
	permanent bool
	counted   annals.SeqNr // a high counter has this number, or a higher one
}

// run deletes events, which are in ascending order: one after the other, which reading relies on. Then it writes their low counters. They
// come after the events, because the plugin's next DeleteTo begins at the lowest one.
func (d deletion) run(ctx context.Context, events iter.Seq2[stored, error]) error {
	var deleted []annals.SeqNr
	for s, err := range events {
		if err != nil {
			return err
		}
		n := s.n
		if !d.permanent && marked(s.item) {
			continue
		}
		if err := d.delete(ctx, n); err != nil {
			return err
		}
		if deleted = append(deleted, n); len(deleted) == maxItems {
			if err := d.lower(ctx, deleted); err != nil {
				return err
			}
			deleted = nil
		}
	}
	return d.lower(ctx, deleted)
}

// delete marks or removes event n. With an event that has lost its counter the last number would go down, so the counter is written first.
func (d deletion) delete(ctx context.Context, n annals.SeqNr) error {
	if d.permanent && n > d.counted {
		if _, err := plan.Try(ctx, d.x, d.count(d.id, n-1, n)); err != nil {
			return err
		}
	}
	_, err := plan.Try(ctx, d.x, d.op(n))
	return err
}

func (d deletion) op(n annals.SeqNr) plan.Op {
	if d.permanent {
		return plan.Op{Table: d.Table, Key: d.event(d.id, n), Delete: true}
	}
	return plan.Op{Table: d.Table, Key: d.event(d.id, n), Update: "SET #deleted = :true", Condition: "attribute_exists(#payload)",
		Names: map[string]string{"#deleted": deletedName, "#payload": payloadName}, Values: plan.Item{":true": plan.S("true")}}
}

// lower writes the low counters of deleted events.
func (d deletion) lower(ctx context.Context, deleted []annals.SeqNr) error {
	var w plan.Write
	for i, n := range deleted {
		if slices.ContainsFunc(deleted[i+1:], func(m annals.SeqNr) bool { return m%annals.SeqNr(d.Shards) == n%annals.SeqNr(d.Shards) }) {
			continue // a transaction writes an item once: the highest number that the counter gets
		}
		it := d.low(d.id, n)
		it[numberName] = plan.N(n)
		w.Ops = append(w.Ops, plan.Op{Table: d.Table, Put: it})
	}
	if w.Ops == nil {
		return nil
	}
	_, err := d.x.Write(ctx, w)
	return err
}
