package akka0

import (
	"context"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/akkakeys"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/akkawire"
)

// The counters of an entity are distributed over sequence shards. The high ones have numbers of events, the low ones of deleted events. All
// shards are read, in parallel.

func (j *journal) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	_, last, err := j.last(ctx, id)
	return last, err
}

// last returns the highest number that a counter has, and the last number. These differ when the plugin has lost a counter and acknowledged
// its event: so events without counters are looked for after the first number.
func (j *journal) last(ctx context.Context, id annals.PersistenceID) (counted, last annals.SeqNr, err error) {
	high, _, err := j.Read(ctx, j.x, id, akkakeys.High)
	if err != nil {
		return 0, 0, err
	}
	counted = slices.Max(append(high, 0))
	for last = counted; last < annals.MaxSeqNr; last++ {
		found, err := j.x.GetAll(ctx, j.Table, []plan.Item{j.event(id, last+1), j.high(id, last+1)})
		if err != nil {
			return 0, 0, err
		}
		event := false
		for _, it := range found {
			event = event || it[payloadName] != nil
			if n, _ := plan.Number(it, numberName); annals.SeqNr(n) > last {
				high, _, err := j.Read(ctx, j.x, id, akkakeys.High) // written since the counters were read
				last = slices.Max(append(high, annals.SeqNr(n)))
				return last, last, err
			}
		}
		if !event {
			break
		}
	}
	return counted, last, nil
}

// count is the op that writes the counter of event n, on condition that it is not above after.
func (j *journal) count(id annals.PersistenceID, after, n annals.SeqNr) plan.Op {
	it := j.high(id, n)
	it[numberName] = plan.N(n)
	return plan.Op{Table: j.Table, Put: it, Condition: "attribute_not_exists(#key) OR #number <= :after",
		Names: map[string]string{"#key": keyName, "#number": numberName}, Values: plan.Item{":after": plan.N(after)}}
}

// guard is plan.Contracts.Guard. An append of the next number has a counter, which never goes down, unless the plugin has lost it; then there is the event.
func (j *journal) guard(id annals.PersistenceID, n annals.SeqNr) ([]plan.Guard, error) {
	counter := plan.Op{Table: j.Table, Key: j.high(id, n+1), Condition: "attribute_not_exists(#number) OR #number < :n",
		Names: map[string]string{"#number": numberName}, Values: plan.Item{":n": plan.N(n + 1)}}
	event := plan.Op{Table: j.Table, Key: j.event(id, n+1), Condition: "attribute_not_exists(#payload)", Names: map[string]string{"#payload": payloadName}}
	return []plan.Guard{{Op: counter}, {Op: event}}, nil
}

// SkipTo is ability.Skipper. The counter of n has the last number, and the counter of after+1 makes an append after the number after fail. With
// marks an entity whose events are deleted gets events that are marked, too, because the plugin does not read on behind a number without an item.
func (j *journal) SkipTo(ctx context.Context, id annals.PersistenceID, after, n annals.SeqNr) error {
	last, event, err := j.newest(ctx, id, after, n)
	switch {
	case err != nil:
		return err
	case last == n && !event:
		return j.remains(ctx, id, after, n)
	case last != after:
		return &annals.Error{Kind: annals.ErrConflict, After: after, Last: last}
	}
	var w plan.Write
	d := deletion{journal: j, id: id, permanent: j.permanent, counted: last}
	if event {
		if err := j.DeleteTo(ctx, id, after-1); err != nil {
			return err
		}
		w.Ops = append(w.Ops, d.op(after))
	}
	if after > 0 && !j.permanent {
		for _, m := range slices.Compact([]annals.SeqNr{after + 1, n}) {
			it := j.eventItem(annals.Commit{ID: id}, m, &annals.NewEvent{Payload: annals.Payload{SerializerID: akkawire.BytesSerializer}})
			it[deletedName] = plan.S("true")
			w.Ops = append(w.Ops, plan.Create(j.Table, it, payloadName))
		}
	}
	for _, m := range slices.Compact([]annals.SeqNr{n - (n-after-1)%annals.SeqNr(j.Shards), n}) { // the first is the highest one with the counter of after+1
		w.Ops = append(w.Ops, j.count(id, after, m))
	}
	w.Ops[len(w.Ops)-1].Ours = func(old plan.Item) bool { return plan.KeyText(old[numberName]) == plan.KeyText(plan.N(n)) }
	out, err := j.x.Write(ctx, w)
	if err == nil && out.Repeated { // an append, or a skip to a later number, may have written this counter too
		var stands bool
		switch last, stands, err = j.newest(ctx, id, n); {
		case err != nil:
		case last != n || stands:
			err = &annals.Error{Kind: annals.ErrConflict, After: after, Last: last}
		default:
			err = j.remains(ctx, id, after, n)
		}
	}
	if err == nil && event {
		err = d.lower(ctx, []annals.SeqNr{after})
	}
	return err
}

// remains returns ErrConflict when n is no longer the last number: then its event, which was found deleted, may have been deleted by a skip to a later
// number after the last number was read.
func (j *journal) remains(ctx context.Context, id annals.PersistenceID, after, n annals.SeqNr) error {
	last, err := j.LastSeqNr(ctx, id)
	if err == nil && last != n {
		err = &annals.Error{Kind: annals.ErrConflict, After: after, Last: last}
	}
	return err
}

// newest returns the last number of id, and, if that is one of asked, whether its event is there and not deleted.
func (j *journal) newest(ctx context.Context, id annals.PersistenceID, asked ...annals.SeqNr) (last annals.SeqNr, event bool, err error) {
	if last, err = j.LastSeqNr(ctx, id); err != nil || last == 0 || !slices.Contains(asked, last) {
		return last, false, err
	}
	it, _, err := j.x.Get(ctx, plan.Get{Table: j.Table, Key: j.event(id, last)})
	return last, it[payloadName] != nil && !marked(it), err
}
