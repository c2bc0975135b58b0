package hashkey

import (
	"context"
	"iter"
	"strconv"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// journal is a journal in a table. It is an annals.Journal.
type journal struct {
	table     string
	keys      keys
	permanent bool
	x         plan.Executor // runs the requests; set by plan.Offer.On
}

// ahead is how many requests of 100 events a replay sends before the caller asks for their events, as many as the plugin does.
const ahead = 10

// Append is annals.Journal. The events and their counters are one transaction. Each event is on condition that there is none with its
// number: an item without payload is not an event. Each counter is on condition that it is lower: the event whose number it has, or one
// after it, may have been removed.
func (j *journal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	last := c.After + annals.SeqNr(len(c.Events))
	w := plan.Write{Token: plan.TokenOf(j.table, j.keys.name, string(c.ID), strconv.FormatInt(int64(c.After), 10), c.WriteID.String())}
	for i := range c.Events {
		n := c.After + 1 + annals.SeqNr(i)
		w.Ops = append(w.Ops, plan.Op{Table: j.table, Put: j.eventItem(c, n, &c.Events[i]),
			Condition: "attribute_not_exists(#payload) AND attribute_not_exists(#number)", Names: map[string]string{"#payload": payloadName, "#number": numberName}})
		if last-n < j.keys.shards { // a transaction writes an item once: the highest number that the counter has
			w.Ops = append(w.Ops, j.count(c.ID, n))
		}
	}
	w.Refused = func(old []plan.Item, _ bool) error {
		for i, it := range old {
			if err := j.collision(c.ID, w.Ops[i].Put, it); err != nil {
				return err
			}
		}
		return &annals.Error{Kind: annals.ErrConflict, After: c.After}
	}
	if _, err := j.x.Write(ctx, w); err != nil {
		return annals.Receipt{}, err
	}
	return annals.Receipt{SeqNr: last}, nil
}

// Replay is annals.Journal.
func (j *journal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		for m, err := range j.replay(ctx, id, from, to, false) {
			if !yield(m.Event, err) {
				return
			}
		}
	}
}

// replay yields the events from … to, with those marked as deleted if all is set.
func (j *journal) replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr, all bool) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		last, err := j.LastSeqNr(ctx, id)
		if err != nil {
			yield(Message{}, err)
			return
		}
		for m, err := range j.read(ctx, id, from, min(to, last), all) {
			if !yield(m, err) {
				return
			}
		}
	}
}

// read yields the events from … to, which is not above the last number. Numbers without an event are passed over: single events can be
// deleted, and the plugin leaves numbers unused. But a DeleteTo during the read is ErrTruncated. It deletes in ascending order, so when the
// last event yielded is still there, no DeleteTo has deleted one after it. So a gap is checked with that event; one check is enough for all
// the events that were read before it.
func (j *journal) read(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr, all bool) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		if from < 1 {
			return // a recovery from a snapshot with the highest number
		}
		n := from - 1
		yielded := annals.SeqNr(0) // the last one
		gap := false               // after it, and not checked
		for page, err := range pages(j.x.GetEach(ctx, j.table, j.keys.events(id, numbers(from, to)), ahead)) {
			if err != nil {
				yield(Message{}, err)
				return
			}
			checked := false
			for _, it := range page {
				n++
				m, ok, err := j.message(id, n, it)
				switch {
				case err != nil:
				case !ok || m.Deleted && !all:
					gap = gap || yielded > 0 && !checked
					continue
				case gap:
					err = j.stands(ctx, id, yielded, all)
					gap, checked = false, true
				}
				if err != nil {
					yield(Message{}, err)
					return
				}
				if !yield(m, nil) {
					return
				}
				yielded = n
			}
		}
		if gap {
			if err := j.stands(ctx, id, yielded, all); err != nil {
				yield(Message{}, err)
			}
		}
	}
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

// stands returns ErrTruncated if event n has been deleted since it was read.
func (j *journal) stands(ctx context.Context, id annals.PersistenceID, n annals.SeqNr, all bool) error {
	it, _, err := j.x.Get(ctx, plan.Get{Table: j.table, Key: item(j.keys.event(id, n))})
	if err == nil && (it[payloadName] == nil || marked(it) && !all) {
		err = &annals.Error{Kind: annals.ErrTruncated}
	}
	return err
}

// Recover is annals.Recoverer. There are no snapshots, so it is a replay. The last number is the one that the replay was bounded by.
func (j *journal) Recover(ctx context.Context, id annals.PersistenceID, _ func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	last, err := j.LastSeqNr(ctx, id)
	if err != nil {
		return 0, err
	}
	for m, err := range j.read(ctx, id, 1, last, false) {
		if err == nil {
			err = event(m.Event)
		}
		if err != nil {
			return 0, err
		}
	}
	return last, nil
}
