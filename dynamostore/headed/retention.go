package headed

import (
	"cmp"
	"context"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Retain deletes or marks the copies of id that Snapshot.Keep does not keep. Every write that makes a copy does so too, after the
// write, and drops the error: a copy that stays is deleted by the next such write, or by Retain. It is for entities that are no longer
// written, and for programs that want to know the error. Without Keep it does nothing. s is a *dynamostore.Store with this layout.
func Retain(ctx context.Context, s Store, id annals.PersistenceID) error {
	return s.Execute(ctx, plan.Function{Op: "retain snapshots", ID: id, Writes: true, Run: func(ctx context.Context, c plan.Contracts, x plan.Executor) error {
		on, ok := c.Snapshots.(*snapshots)
		if !ok {
			return &annals.Error{Kind: annals.ErrUnsupported}
		}
		return on.on(x).retain(ctx, id, 0)
	}})
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

// retain deletes the copies of id except the newest, or marks them with the time from which they have expired. The index may not have the
// copy that was written last: its number is written; 0 where it is not known. A copy is never older than Keep others when it is kept,
// whatever the index lacks, and concurrent runs agree, because newer copies are counted and not all copies.
func (s *snapshots) retain(ctx context.Context, id annals.PersistenceID, written annals.SeqNr) error {
	if s.keep == 0 {
		return nil
	}
	newer := 0
	if written > 0 {
		newer++
	}
	excess := func(yield func(plan.Item, error) bool) {
		for it, err := range s.copies(ctx, id, annals.SnapshotCriteria{}, cmp.Or(s.active, s.index)) {
			ttl, _ := plan.Number(it, attrTTL)
			switch {
			case err == nil && (ttl > 0 || s.numberIn(it) == written):
				continue
			case err == nil && newer < s.keep:
				newer++
				continue
			}
			if !yield(it, err) {
				return
			}
		}
	}
	return s.each(excess, func(keys []plan.Item) error {
		if s.expire == 0 {
			return s.x.DeleteAll(ctx, s.table, keys)
		}
		for _, key := range keys {
			if err := s.mark(ctx, key); err != nil {
				return err
			}
		}
		return nil
	})
}

// each calls do for the keys of the rows found, some at a time, so that not all are in memory.
func (s *snapshots) each(found iter.Seq2[plan.Item, error], do func(keys []plan.Item) error) error {
	const most = 100
	var keys []plan.Item
	for it, err := range found {
		if err != nil {
			return err
		}
		if keys = append(keys, s.events.KeyOf(it)); len(keys) == most {
			if err := do(keys); err != nil {
				return err
			}
			keys = nil
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return do(keys)
}

// mark stores when the copy at key expires, once: a copy that is marked or deleted stays so.
func (s *snapshots) mark(ctx context.Context, key plan.Item) error {
	u := plan.NewUpdate()
	u.SetTo(attrTTL, u.Value(plan.N(s.x.Now().Add(s.expire).Unix())))
	if s.active != "" {
		u.Remove(attrActive)
	}
	op := plan.Op{Table: s.table, Key: key, Update: u.Expression(), Names: u.Names, Values: u.Values}
	op.Condition = u.Name(attrTTL) + " = " + u.Value(plan.N(0))
	_, err := s.x.Write(ctx, plan.Write{Ops: []plan.Op{op}, Refused: func([]plan.Item, bool) error { return nil }})
	return err
}

// copies yields the keys of the copies of id whose numbers fit c, the newest first. Marked ones are only left out by the index active.
func (s *snapshots) copies(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria, index string) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		from, to := max(c.MinSeqNr, 1), cmp.Or(c.MaxSeqNr, annals.MaxSeqNr)
		if from > to {
			return // the service refuses a query for no values
		}
		q := plan.Query{Table: s.table, Index: index, Hash: s.aid(id), From: plan.N(from), To: plan.N(to), Backward: true, Fields: []string{attrPartition, attrSort, attrSeq, attrTTL}}
		if index == s.active {
			q.Fields = []string{attrPartition, attrSort, attrActive}
		}
		for it, err := range s.x.Query(ctx, q) {
			if err != nil {
				yield(nil, err)
				return
			}
			// Other rows are main rows, those of another type with the same aggregate id, and those with keys of other settings.
			key, err := s.key(id, s.numberIn(it))
			if err != nil || !plan.SameKey(key, s.events.KeyOf(it)) {
				continue
			}
			if !yield(it, nil) {
				return
			}
		}
	}
}

// numberIn returns the number of a copy as an index has it.
func (s *snapshots) numberIn(it plan.Item) annals.SeqNr {
	n, ok := plan.Number(it, attrSeq)
	if !ok {
		n, _ = plan.Number(it, attrActive)
	}
	return annals.SeqNr(n)
}
