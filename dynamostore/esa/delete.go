package esa

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// DeleteTo is annals.Journal. It sets the mark in the head, up to which no event is read, and then removes the rows. A delete that was interrupted
// leaves rows up to the mark, and the next one removes them.
func (j *journal) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	h, err := j.read(ctx, id)
	if err != nil || h.item == nil {
		return err
	}
	if to > h.version {
		last, err := j.last(ctx, id, h, 0)
		if err != nil {
			return err
		}
		to = min(to, last)
	}
	if to > h.deleted {
		if err := j.mark(ctx, id, to); err != nil {
			return err
		}
	}
	return j.x.Then(ctx, func(ctx context.Context, x plan.Executor) error {
		return j.remove(ctx, x, numbered.Part{ID: id, From: 1, To: max(to, h.deleted), Fields: []string{attrOccurred, attrWriteID}}, h.deleted+1)
	})
}

// mark sets the mark of the events that are deleted, unless it is higher already.
func (j *journal) mark(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	key, err := j.headKey(id)
	if err != nil {
		return err
	}
	u := plan.NewUpdate()
	n := u.Value(plan.N(to))
	u.SetTo(attrDeleted, n)
	op := plan.Op{Table: j.heads, Key: key, Update: u.Expression(), Names: u.Names, Values: u.Values}
	op.Condition = "attribute_exists(" + u.Name(j.peer.attrCount()) + ") AND (attribute_not_exists(" + u.Name(attrDeleted) + ") OR " + u.Name(attrDeleted) + " < " + n + ")"
	_, err = plan.Try(ctx, j.x, op)
	return err
}

// remove removes the rows of p. Those before from were left by a delete that was interrupted; the rows that the index does not have yet are not before
// from.
func (j *journal) remove(ctx context.Context, x plan.Executor, p numbered.Part, from annals.SeqNr) error {
	on := *j
	on.x = x
	found := on.found(ctx, p)
	p.From = from
	keys := plan.Picked(on.complete(ctx, p, found), func(it plan.Item) (plan.Item, bool, error) {
		if it[attrWriteID] == nil || j.apart {
			return j.events.KeyOf(it), true, nil
		}
		_, err := x.Write(ctx, plan.Write{Ops: []plan.Op{{Table: j.events.Name, Put: tombstone(it)}}})
		return nil, false, err
	})
	return plan.Batches(keys, func(keys []plan.Item) error { return x.DeleteAll(ctx, j.events.Name, keys) })
}

// tombstone returns what a delete leaves of the row of an event with a WriteID, so that a repeated Append is still recognised.
func tombstone(it plan.Item) plan.Item {
	left := plan.Item{}
	for _, name := range []string{attrPartition, attrSort, attrOccurred, attrWriteID} {
		left[name] = it[name]
	}
	return left
}

// SkipTo is ability.Skipper, for the tables of Rust5: a head without events, whose mark hides the rows that are still there. The libraries would
// take other heads for damaged, because they need a state.
func (j *journal) SkipTo(ctx context.Context, id annals.PersistenceID, after, n annals.SeqNr) error {
	if n >= maxNumber {
		return plan.Misfit("the number to skip to is %d, the highest is %d", n, maxNumber-1)
	}
	it, err := j.headItem(id, n, plan.Item{attrEvents: plan.L(), attrDeleted: plan.N(n)})
	if err != nil {
		return err
	}
	op := j.create(j.heads, it)
	op.Ours = func(old plan.Item) bool {
		h, err := j.head(id, old)
		return err == nil && h.version == n && h.deleted == n && len(h.events) == 0
	}
	if after > 0 {
		op.Condition, op.Names, op.Values = "#seq = :after", map[string]string{"#seq": attrSeq}, plan.Item{":after": plan.N(after)}
	}
	_, err = j.x.Write(ctx, plan.Write{Ops: []plan.Op{op}, Refused: func(old []plan.Item, _ bool) error {
		h, _ := j.head(id, old[0])
		return &annals.Error{Kind: annals.ErrConflict, After: after, Last: h.version}
	}})
	if err != nil || after == 0 {
		return err
	}
	return j.DeleteTo(ctx, id, n)
}
