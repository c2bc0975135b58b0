package akka0

import (
	"context"
	"iter"
	"slices"
	"strconv"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/akkakeys"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// journal is a journal in a table. It is an annals.Journal.
type journal struct {
	plan.Reads
	akkakeys.Journal
	permanent bool
	x         plan.Executor // runs the requests; set by plan.Offer.On
}

// Append is annals.Journal. The events and their counters are one transaction. Each event is on condition that there is none with its
// number: an item without payload is not an event. Each counter is on condition that it is not above c.After: the event whose number it has
// may have been removed.
func (j *journal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	last := c.After + annals.SeqNr(len(c.Events))
	w := plan.Write{Token: plan.TokenOf(j.Table, j.Name, string(c.ID), strconv.FormatInt(int64(c.After), 10), c.WriteID.String())}
	for i := range c.Events {
		n := c.After + 1 + annals.SeqNr(i)
		w.Ops = append(w.Ops, plan.Op{Table: j.Table, Put: j.eventItem(c, n, &c.Events[i]),
			Condition: "attribute_not_exists(#payload) AND attribute_not_exists(#number)", Names: map[string]string{"#payload": payloadName, "#number": numberName}})
		if last-n < annals.SeqNr(j.Shards) { // a transaction writes an item once: the highest number that the counter has
			w.Ops = append(w.Ops, j.count(c.ID, c.After, n))
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

// messages yields the events from … to with those marked as deleted.
func (j *journal) messages(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[Message, error] {
	r := &reader{journal: j, id: id, all: true}
	return plan.Picked(driver.Replay(ctx, r, from, to), func(e annals.Event) (Message, bool, error) {
		if i := slices.IndexFunc(r.messages, func(m Message) bool { return m.SeqNr == e.SeqNr }); i >= 0 {
			return r.messages[i], true, nil
		}
		return Message{Event: e}, true, nil
	})
}
