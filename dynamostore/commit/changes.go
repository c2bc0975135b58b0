package commit

import (
	"context"
	"errors"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// changes says how the stream of the table tells of events.
func (t *table) changes() *plan.Feed {
	return &plan.Feed{Table: t.name, Events: changed, Owner: owner, Scan: t.scan}
}

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
	if err != nil {
		return nil, err
	}
	return r.events(nil, r.seq, r.last())
}

// owner is plan.Feed.Owner.
func owner(image plan.Item) annals.PersistenceID {
	id, _ := plan.Text(image, attrID)
	return annals.PersistenceID(id)
}

// scan is plan.Feed.Scan: it finds the ids that have commits or tombstones of commits. The items of an id follow each other.
func (t *table) scan(ctx context.Context, x plan.Executor, p plan.Part) iter.Seq2[plan.Found, error] {
	return func(yield func(plan.Found, error) bool) {
		var last plan.Found
		for it, err := range x.ScanAll(ctx, t.name, []string{attrID, attrSeq, attrCount, attrTime}, p) {
			if err != nil {
				yield(plan.Found{}, err)
				return
			}
			if !isCommit(it) {
				continue
			}
			if id := owner(it); id != last.ID {
				if last.ID != "" && !yield(last, nil) {
					return
				}
				last = plan.Found{ID: id}
			}
			first, _ := plan.Number(it, attrSeq)
			count, _ := plan.Number(it, attrCount)
			if n := annals.SeqNr(first + count - 1); n > last.Last {
				last.Last, last.Time = n, plan.Time(it, attrTime)
			}
		}
		if last.ID != "" {
			yield(last, nil)
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
