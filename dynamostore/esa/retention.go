package esa

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Retain deletes or marks the copies of id that Snapshot.Keep does not keep. Every write that makes a copy does so too, after the
// write, and drops the error: a copy that stays is deleted by the next such write, or by Retain. It is for entities that are no longer
// written, and for programs that want to know the error. Without Keep it does nothing. s is a *dynamostore.Store with this layout, or that
// store inside one of its transactions; for others Retain is ErrUnsupported.
func Retain(ctx context.Context, s annals.Store, id annals.PersistenceID) error {
	return plan.Run(ctx, s, plan.Function{Op: "retain snapshots", ID: id, Writes: true, Run: plan.OnJournal(func(ctx context.Context, j *journal) error {
		return j.snapshots.retain(ctx, id, 0)
	})})
}

// copies are the rows of the snapshot table that have a state with their number in the key.
type copies struct {
	rows
	x      plan.Executor
	shape  plan.Table
	active string // the index of copies that do not expire; "" is none
	keep   int
	expire time.Duration
}

// written is called after a write of sn. An error must not change the result of the write, which is stored.
func (c *copies) written(ctx context.Context, sn annals.Snapshot) {
	if c.keep > 0 {
		_ = c.x.Then(ctx, func(ctx context.Context, x plan.Executor) error {
			outside := *c
			outside.x = x
			return outside.retain(ctx, sn.ID, sn.SeqNr)
		})
	}
}

// retain deletes or marks the copies of id that do not stay: all but the newest. An index may not yet have the copy that was written last: its
// number is written; 0 where it is not known. A copy is removed only when enough newer ones were written, so concurrent runs, and an index that
// lags behind, remove nothing that stays.
func (c *copies) retain(ctx context.Context, id annals.PersistenceID, written annals.SeqNr) error {
	if c.keep == 0 {
		return nil
	}
	return plan.Batches(c.excess(ctx, id, written), func(keys []plan.Item) error {
		if c.expire == 0 {
			return c.x.DeleteAll(ctx, c.shape.Name, keys)
		}
		end := plan.N(c.x.Now().Add(c.expire).Unix())
		for _, key := range keys {
			if _, err := plan.Try(ctx, c.x, c.mark(key, end)); err != nil {
				return err
			}
		}
		return nil
	})
}

// excess yields the keys of the copies of id that do not stay.
func (c *copies) excess(ctx context.Context, id annals.PersistenceID, written annals.SeqNr) iter.Seq2[plan.Item, error] {
	kept, last := 0, annals.MaxSeqNr
	return plan.Picked(c.all(ctx, id, annals.SnapshotCriteria{}, cmp.Or(c.active, c.shape.Indexes[0].Name)), func(it plan.Item) (plan.Item, bool, error) {
		if ttl, _ := plan.Number(it, attrTTL); ttl > 0 {
			return nil, false, nil
		}
		n := c.numberIn(it)
		if n < written && written < last {
			kept++ // the place of the copy that the index does not have
		}
		last = n
		kept++
		return c.shape.KeyOf(it), kept > c.keep, nil
	})
}

// mark returns the op that stores when the copy at key expires, in seconds since 1970, once: a copy that is marked or deleted stays so.
func (c *copies) mark(key plan.Item, end types.AttributeValue) plan.Op {
	u := plan.NewUpdate()
	u.SetTo(attrTTL, u.Value(end))
	op := plan.Op{Table: c.shape.Name, Key: key}
	if c.active != "" {
		op.Condition = "attribute_exists(" + u.Name(c.peer.attrActive()) + ")"
		u.Remove(c.peer.attrActive())
	} else {
		op.Condition = u.Name(attrTTL) + " = " + u.Value(plan.N(0))
	}
	op.Update, op.Names, op.Values = u.Expression(), u.Names, u.Values
	return op
}

// all yields the keys of the copies of id whose numbers fit criteria, the newest first. Marked ones are only left out by the index active.
func (c *copies) all(ctx context.Context, id annals.PersistenceID, criteria annals.SnapshotCriteria, index string) iter.Seq2[plan.Item, error] {
	from, to, some := plan.Numbers(criteria, 1)
	if !some {
		return none
	}
	q := plan.Query{Table: c.shape.Name, Index: index, Hash: c.aid(id), From: plan.N(from), To: plan.N(to), Backward: true, Fields: []string{c.shape.Hash.Name, c.shape.Range.Name, attrSeq, attrTTL}}
	if index == c.active {
		q.Fields = append(q.Fields[:2], c.peer.attrActive())
	}
	return plan.Picked(c.x.Query(ctx, q), func(it plan.Item) (plan.Item, bool, error) {
		// Other rows are heads, those of another type with the same aggregate id, and those with keys of other settings.
		key, err := c.stateKey(id, c.numberIn(it))
		return it, err == nil && plan.SameKey(key, c.shape.KeyOf(it)), nil
	})
}

// numberIn returns the number of a copy as an index has it.
func (c *copies) numberIn(it plan.Item) annals.SeqNr {
	n, ok := plan.Number(it, attrSeq)
	if !ok {
		n, _ = plan.Number(it, c.peer.attrActive())
	}
	return annals.SeqNr(n)
}

// expired reports whether a copy has come to its end. The service removes such rows some days later.
func (c *copies) expired(it plan.Item) bool {
	end, _ := plan.Number(it, attrTTL)
	return end > 0 && end <= c.x.Now().Unix()
}
