package esa

import (
	"context"
	"iter"
	"slices"

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

// lastEvents is plan.Feed.Events for Rust5: a head has the events of the last commit. A delete changes the head, too: then the events come again,
// without those that are deleted.
func (j *journal) lastEvents(image plan.Item, _ bool) ([]annals.Event, error) {
	if _, of := j.ofHead(image); !of {
		return nil, nil
	}
	h, err := j.head(j.owner(image, 0), image)
	return slices.DeleteFunc(h.events, func(e annals.Event) bool { return e.SeqNr <= h.deleted }), err
}

// ofHead returns the id of a head; false for another row.
func (j *journal) ofHead(it plan.Item) (annals.PersistenceID, bool) {
	id := j.owner(it, 0)
	key, err := j.headKey(id)
	for name, v := range key {
		if plan.KeyText(v) != plan.KeyText(it[name]) {
			return id, false
		}
	}
	return id, err == nil
}

// scan is plan.Feed.Scan: it finds the heads in a part of their table.
func (j *journal) scan(ctx context.Context, x plan.Executor, p plan.Part) iter.Seq2[plan.Found, error] {
	fields := []string{attrAID, j.peer.attrCount()}
	if !j.apart {
		fields = append(fields, attrPartition, attrSort)
	}
	return plan.Picked(x.ScanAll(ctx, j.heads, fields, p), func(it plan.Item) (plan.Found, bool, error) {
		version, _ := plan.Number(it, j.peer.attrCount())
		id, ok := j.ofHead(it)
		return plan.Found{ID: id, Last: annals.SeqNr(version)}, ok, nil
	})
}
