package subscription

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

const (
	maxParked    = 1000 // entities of a subscription that are parked at the same time
	maxErrorText = 1000 // bytes of Parked.Error
	maxTruncated = 10   // replays of an entity that are repeated because of ErrTruncated
)

// Parked is an entity whose events cannot be read. Nothing but the item in the table says so: the mark of the entity stays before the
// event, and each later event of the entity, and each round, tries to read the journal from there.
type Parked struct {
	ID    annals.PersistenceID
	From  annals.SeqNr // the first number that is not delivered
	Error string       // why
	Since time.Time
}

// parkedName is the hash key of the items of the parked entities of a subscription.
func parkedName(name string) string { return own(name) + "parked" }

func (p Parked) item(name string) plan.Item {
	return plan.Item{attrName: plan.S(parkedName(name)), attrItem: entityItem(p.ID), attrID: plan.S(string(p.ID)), attrSeq: plan.N(p.From),
		attrError: plan.S(p.Error), attrSince: plan.Micros(p.Since)}
}

// park stores that the events of id after its mark cannot be read because of err, so that the shard goes on with other entities. It returns
// nil then, and err when err is no reason for that, or when too many entities are parked. Without err the events were read.
func (r *reader) park(ctx context.Context, id annals.PersistenceID, err error) error {
	if err == nil {
		if from, parked := r.parked[id]; parked && r.mark(id).seq >= from {
			delete(r.parked, id)
			r.keep(id)
		}
		return nil
	}
	from := r.mark(id).seq + 1
	truncated := errors.Is(err, annals.ErrTruncated)
	switch {
	case !truncated && !errors.Is(err, annals.ErrCorrupt) && !errors.Is(err, annals.ErrUnsupported):
		return err
	case r.parked[id] == from:
		return nil
	case truncated && r.truncated[id] < maxTruncated: // a delete while it was read: that passes
		r.truncated[id]++
		return err
	}
	delete(r.truncated, id)
	all, _, failed := r.loadParked(ctx, r.name)
	if failed != nil {
		return failed
	}
	if all = slices.DeleteFunc(all, func(p Parked) bool { return p.ID == id }); len(all) >= maxParked {
		return err
	}
	if err := r.flush(ctx); err != nil { // then all events up to the mark are acknowledged
		return err
	}
	text := err.Error()
	p := Parked{id, from, strings.ToValidUTF8(text[:min(len(text), maxErrorText)], ""), time.Now()}
	if err := r.store(ctx, r.shard, r.markOf(id), plan.Op{Table: r.Table, Put: p.item(r.name)}); err != nil {
		return err
	}
	r.parked[id] = from
	return nil
}

// waiting reads which entities are parked: another reader may have stored that.
func (r *reader) waiting(ctx context.Context) error {
	all, _, err := r.loadParked(ctx, r.name)
	for _, p := range all {
		r.parked[p.ID] = p.From
	}
	return err
}

// markOf is what is known of id, to be stored in place of a mark that may be of before the entity was forgotten.
func (r *reader) markOf(id annals.PersistenceID) map[annals.PersistenceID]known {
	k, _ := r.marks.Get(id)
	return map[annals.PersistenceID]known{id: k}
}

// Parked returns the parked entities of the subscription name.
func (s *Subscriptions) Parked(ctx context.Context, name string) ([]Parked, error) {
	waiting, _, err := s.loadParked(ctx, name)
	return waiting, err
}

// loadParked returns the parked entities whose marks are still before the event, and the keys of the items of all.
func (s *Subscriptions) loadParked(ctx context.Context, name string) (waiting []Parked, keys []plan.Item, err error) {
	var ids []annals.PersistenceID
	for it, err := range s.Executor.Query(ctx, plan.Query{Table: s.Table, Hash: parkedName(name)}) {
		if err != nil {
			return nil, nil, err
		}
		d := plan.Decoder{Item: it}
		d.Require(attrID, attrSince)
		p := Parked{annals.PersistenceID(d.Text(attrID)), annals.SeqNr(d.Required(attrSeq, 1, math.MaxInt64)), d.Text(attrError), d.Time(attrSince)}
		if d.Fault != nil {
			return nil, nil, corrupt(fmt.Errorf("a parked entity: %w", d.Fault))
		}
		waiting, ids = append(waiting, p), append(ids, p.ID)
		keys = append(keys, plan.Item{attrName: it[attrName], attrItem: it[attrItem]})
	}
	if len(ids) == 0 {
		return nil, nil, nil
	}
	marks, err := loadMarks(ctx, s.Executor, s.Table, name, ids)
	return slices.DeleteFunc(waiting, func(p Parked) bool { return marks[p.ID].seq >= p.From }), keys, err
}

// Retry orders a new round. What still cannot be read then is parked again.
func (s *Subscriptions) Retry(ctx context.Context, name string) error {
	_, keys, err := s.loadParked(ctx, name)
	if err == nil {
		err = s.remove(ctx, keys)
	}
	if err != nil {
		return err
	}
	return s.order(ctx, name, 0)
}
