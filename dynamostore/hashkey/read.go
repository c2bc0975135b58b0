package hashkey

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// ahead is how many requests of 100 events a replay sends before the caller asks for their events, as many as the plugin does.
const ahead = 10

// read calls each for the events from … to, with those marked as deleted if all is set, until each returns false. It returns the last number
// that the read is bounded by.
//
// The last number is read before the events. When events at the beginning have been deleted, that can have happened after more events were
// stored. Then these are read, too: a read that shows a delete shows what was stored before the delete.
func (j *journal) read(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr, all bool, each func(Message) bool) (last annals.SeqNr, err error) {
	if from < 1 {
		return 0, nil // a recovery from a snapshot with the highest number
	}
	r := reading{journal: j, id: id, all: all, each: each, n: from - 1}
	for {
		if last, err = j.LastSeqNr(ctx, id); err != nil {
			return 0, err
		}
		if err := r.upTo(ctx, min(to, last)); err != nil || r.left || !r.missing || last >= to {
			return last, err
		}
		it, _, err := j.x.Get(ctx, plan.Get{Table: j.table, Key: item(j.keys.high(id, last+1))})
		if err != nil {
			return 0, err
		}
		if n, _ := plan.Number(it, numberName); annals.SeqNr(n) <= last {
			return last, nil
		}
	}
}

// reading is the state of a read.
type reading struct {
	*journal
	id   annals.PersistenceID
	all  bool
	each func(Message) bool

	n       annals.SeqNr // the last number that was read
	yielded annals.SeqNr // the last one that each was called for; 0 is none
	missing bool         // the last part has numbers without an event, before any that each was called for
	gap     bool         // numbers after yielded have no event, which is not checked
	left    bool         // each returned false
}

// upTo reads the next part, up to a number. Numbers without an event are passed over: single events can be deleted, and the plugin leaves
// numbers unused. But a DeleteTo during the read is ErrTruncated. It deletes in ascending order, so when the event yielded last is still
// there, no DeleteTo has deleted one after it. So a gap is checked with that event; one check is enough for all events that were read
// before it.
func (r *reading) upTo(ctx context.Context, to annals.SeqNr) error {
	r.missing = false
	for page, err := range pages(r.x.GetEach(ctx, r.table, r.keys.events(r.id, numbers(r.n+1, to)), ahead)) {
		if err != nil {
			return err
		}
		checked := false
		for _, it := range page {
			r.n++
			m, ok, err := r.message(r.id, r.n, it)
			switch {
			case err != nil:
				return err
			case !ok || m.Deleted && !r.all:
				r.missing = r.missing || r.yielded == 0
				r.gap = r.gap || r.yielded > 0 && !checked
				continue
			case r.gap:
				if err := r.stands(ctx); err != nil {
					return err
				}
				checked = true
			}
			if r.left = !r.each(m); r.left {
				return nil
			}
			r.yielded = r.n
		}
	}
	if r.gap {
		return r.stands(ctx)
	}
	return nil
}

// stands returns ErrTruncated if the event yielded last has been deleted since it was read.
func (r *reading) stands(ctx context.Context) error {
	it, _, err := r.x.Get(ctx, plan.Get{Table: r.table, Key: item(r.keys.event(r.id, r.yielded))})
	if err == nil && (it[payloadName] == nil || marked(it) && !r.all) {
		err = &annals.Error{Kind: annals.ErrTruncated}
	}
	r.gap = false
	return err
}

// pages collects items, 100 at a time.
func pages(items iter.Seq2[plan.Item, error]) iter.Seq2[[]plan.Item, error] {
	return func(yield func([]plan.Item, error) bool) {
		var page []plan.Item
		for it, err := range items {
			if err != nil {
				yield(nil, err)
				return
			}
			if page = append(page, it); len(page) == 100 {
				if !yield(page, nil) {
					return
				}
				page = nil
			}
		}
		if len(page) > 0 {
			yield(page, nil)
		}
	}
}
