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

// ids is plan.Feed.IDs: each entity has a head.
func (j journal) ids(ctx context.Context, x plan.Executor, p plan.Part) iter.Seq2[annals.PersistenceID, error] {
	return func(yield func(annals.PersistenceID, error) bool) {
		for page, err := range x.ScanAll(ctx, j.heads, []string{attrAID}, p) {
			if err != nil {
				yield("", err)
				return
			}
			for _, it := range page {
				if aid, _ := plan.Text(it, attrAID); aid != configAID && !yield(rule.ID(aid), nil) {
					return
				}
			}
		}
	}
}
