package headtable

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// headEvents is plan.Feed.Events: a head has the events of the last commit. A delete changes the head, too: then the events come again, without those
// that are deleted.
func headEvents(image plan.Item, _ bool) ([]annals.Event, error) {
	aid, ok := plan.Text(image, attrAID)
	if !ok || aid == configAID {
		return nil, nil
	}
	h, err := headOf(rule.ID(aid), image)
	if err != nil {
		return nil, &annals.Error{Kind: annals.ErrCorrupt, Err: err}
	}
	var events []annals.Event
	for _, e := range h.events {
		if e.SeqNr > h.deleted {
			events = append(events, e)
		}
	}
	return events, nil
}

// headOwner is plan.Feed.Owner.
func headOwner(image plan.Item) annals.PersistenceID {
	aid, _ := plan.Text(image, attrAID)
	return rule.ID(aid)
}

// scan is plan.Feed.Scan: each entity has a head.
func (j journal) scan(ctx context.Context, x plan.Executor, p plan.Part) iter.Seq2[plan.Found, error] {
	return func(yield func(plan.Found, error) bool) {
		for page, err := range x.ScanAll(ctx, j.heads, []string{attrAID, attrSeq}, p) {
			if err != nil {
				yield(plan.Found{}, err)
				return
			}
			for _, it := range page {
				last, _ := plan.Number(it, attrSeq)
				if aid, _ := plan.Text(it, attrAID); aid != configAID && !yield(plan.Found{ID: headOwner(it), Last: annals.SeqNr(last)}, nil) {
					return
				}
			}
		}
	}
}
