package headed

import (
	"cmp"
	"context"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/retention"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Retain deletes or marks the copies of id that Snapshot.Keep does not keep. Every write that makes a copy does so too, after the
// write, and drops the error: a copy that stays is deleted by the next such write, or by Retain. It is for entities that are no longer
// written, and for programs that want to know the error. Without Keep it does nothing. s is a *dynamostore.Store with this layout.
func Retain(ctx context.Context, s Store, id annals.PersistenceID) error {
	return s.Execute(ctx, plan.Function{Op: "retain snapshots", ID: id, Writes: true, Run: plan.OnJournal(func(ctx context.Context, j *journal) error {
		return j.snapshots.retain(ctx, id, 0)
	})})
}

// Store is a *dynamostore.Store with this layout, or the store inside one of its transactions.
type Store = plan.Runner

// on returns s with another executor.
func (s *snapshots) on(x plan.Executor) *snapshots {
	c := *s
	c.x = x
	return &c
}

// written is called after a write of sn. An error must not change the result of the write, which is stored.
func (s *snapshots) written(ctx context.Context, sn annals.Snapshot) {
	if s.keep > 0 {
		s.x.Then(ctx, func(ctx context.Context, x plan.Executor) { _ = s.on(x).retain(ctx, sn.ID, sn.SeqNr) })
	}
}

// retain removes the copies of id that do not stay; written is the copy that was just written.
func (s *snapshots) retain(ctx context.Context, id annals.PersistenceID, written annals.SeqNr) error {
	if s.keep == 0 {
		return nil
	}
	unmarked := plan.Picked(s.copies(ctx, id, annals.SnapshotCriteria{}, cmp.Or(s.active, s.index)), func(it plan.Item) (retention.Copy, bool, error) {
		ttl, _ := plan.Number(it, attrTTL)
		return retention.Copy{Number: s.numberIn(it), Key: s.events.KeyOf(it)}, ttl <= 0, nil
	})
	return retention.Rule{Table: s.table, Keep: s.keep, Expire: s.expire, Mark: s.mark}.Apply(ctx, s.x, unmarked, written)
}

// mark returns the op that stores when the copy at key expires, once: a copy that is marked or deleted stays so.
func (s *snapshots) mark(key plan.Item, end types.AttributeValue) plan.Op {
	u := plan.NewUpdate()
	u.SetTo(attrTTL, u.Value(end))
	if s.active != "" {
		u.Remove(attrActive)
	}
	op := plan.Op{Table: s.table, Key: key, Update: u.Expression(), Names: u.Names, Values: u.Values}
	op.Condition = u.Name(attrTTL) + " = " + u.Value(plan.N(0))
	return op
}

// copies yields the keys of the copies of id whose numbers fit c, the newest first. Marked ones are only left out by the index active.
func (s *snapshots) copies(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria, index string) iter.Seq2[plan.Item, error] {
	from, to := max(c.MinSeqNr, 1), cmp.Or(c.MaxSeqNr, annals.MaxSeqNr)
	if from > to {
		return none // the service refuses a query for no values
	}
	q := plan.Query{Table: s.table, Index: index, Hash: s.aid(id), From: plan.N(from), To: plan.N(to), Backward: true, Fields: []string{attrPartition, attrSort, attrSeq, attrTTL}}
	if index == s.active {
		q.Fields = []string{attrPartition, attrSort, attrActive}
	}
	return plan.Picked(s.x.Query(ctx, q), func(it plan.Item) (plan.Item, bool, error) {
		// Other rows are main rows, those of another type with the same aggregate id, and those with keys of other settings.
		key, err := s.key(id, s.numberIn(it))
		return it, err == nil && plan.SameKey(key, s.events.KeyOf(it)), nil
	})
}

// numberIn returns the number of a copy as an index has it.
func (s *snapshots) numberIn(it plan.Item) annals.SeqNr {
	n, ok := plan.Number(it, attrSeq)
	if !ok {
		n, _ = plan.Number(it, attrActive)
	}
	return annals.SeqNr(n)
}
