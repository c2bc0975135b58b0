package headed

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// inserted is plan.Feed.Events: each insert into the journal table is an event.
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

// scan is plan.Feed.Scan: it finds the heads in a part of the snapshot table.
func (j *journal) scan(ctx context.Context, x plan.Executor, p plan.Part) iter.Seq2[plan.Found, error] {
	return func(yield func(plan.Found, error) bool) {
		for page, err := range x.ScanAll(ctx, j.heads, []string{attrPartition, attrSort, attrAID, attrVersion}, p) {
			if err != nil {
				yield(plan.Found{}, err)
				return
			}
			for _, it := range page {
				id := j.owner(it, 0)
				if key, err := j.key(id, 0); err != nil || !plan.SameKey(key, j.events.KeyOf(it)) {
					continue // a copy
				}
				version, _ := plan.Number(it, attrVersion)
				if !yield(plan.Found{ID: id, Last: annals.SeqNr(version)}, nil) {
					return
				}
			}
		}
	}
}
