package headed

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// feed says how the stream of the journal table tells of events: each insert is one.
func (j *journal) feed() *plan.Feed {
	return &plan.Feed{Table: j.events.Name, Events: j.inserted, IDs: j.ids}
}

// inserted returns the event of a row that was inserted.
func (j *journal) inserted(image plan.Item, created bool) ([]annals.Event, error) {
	n, ok := plan.Number(image, attrSeq)
	if !created || !ok || n < 1 {
		return nil, nil
	}
	e, err := j.event(j.owner(image, annals.SeqNr(n)), image)
	if err != nil {
		return nil, err
	}
	return []annals.Event{e}, nil
}

// ids yields the ids of the heads in a part of the snapshot table.
func (j *journal) ids(ctx context.Context, x plan.Executor, p plan.Part) iter.Seq2[annals.PersistenceID, error] {
	return func(yield func(annals.PersistenceID, error) bool) {
		for page, err := range x.ScanAll(ctx, j.heads, []string{attrPartition, attrSort, attrAID}, p) {
			if err != nil {
				yield("", err)
				return
			}
			for _, it := range page {
				id := j.owner(it, 0)
				if key, err := j.key(id, 0); err != nil || !plan.SameKey(key, j.events.KeyOf(it)) {
					continue // a copy
				}
				if !yield(id, nil) {
					return
				}
			}
		}
	}
}
