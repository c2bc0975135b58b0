package commit

import (
	"context"
	"errors"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// changes says how the stream of the table tells of events.
func (t *table) changes() *plan.Feed { return &plan.Feed{Table: t.name, Events: changed, IDs: t.ids} }

// changed returns the events of a commit that is new. An existing commit only changes when its events are deleted, or when it is put into an
// index. Other items hold no events.
func changed(image plan.Item, created bool) (all []annals.Event, err error) {
	if !created || !isCommit(image) {
		return nil, nil
	}
	id, err := idOf(image)
	if err != nil {
		return nil, err
	}
	r, err := read(id, image)
	if err == nil {
		_, err = r.events(r.seq, r.last(), func(e annals.Event) bool {
			all = append(all, e)
			return true
		})
	}
	return all, err
}

// ids yields the ids that have commits or tombstones of commits.
func (t *table) ids(ctx context.Context, x plan.Executor, p plan.Part) iter.Seq2[annals.PersistenceID, error] {
	return func(yield func(annals.PersistenceID, error) bool) {
		var last annals.PersistenceID
		for page, err := range x.ScanAll(ctx, t.name, []string{attrID, attrCount}, p) {
			if err != nil {
				yield("", err)
				return
			}
			for _, it := range page {
				if !isCommit(it) {
					continue
				}
				id, err := idOf(it)
				if err == nil && id == last { // the items of an id follow each other
					continue
				}
				if !yield(id, err) || err != nil {
					return
				}
				last = id
			}
		}
	}
}

// idOf returns the id of an item.
func idOf(it plan.Item) (annals.PersistenceID, error) {
	id, ok := plan.Text(it, attrID)
	if !ok {
		return "", corrupt(0, errors.New("an item has no id"))
	}
	return annals.PersistenceID(id), nil
}
