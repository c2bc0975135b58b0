package esa

import (
	"context"
	"fmt"
	"maps"
	"math"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// head is the head of an aggregate.
type head struct {
	version annals.SeqNr   // how many events were ever stored: the last number, unless a library has left numbers unused
	deleted annals.SeqNr   // events up to this number are deleted
	events  []annals.Event // of the last commit; Rust5
	item    plan.Item      // nil when there is no head
}

// head decodes the row of a head of id; the zero head when it is nil.
func (r rows) head(id annals.PersistenceID, it plan.Item) (head, error) {
	if it == nil {
		return head{}, nil
	}
	d, least, most := plan.Decoder{Item: it}, int64(0), int64(math.MaxInt64)
	if r.apart {
		least, most = 1, int64(maxNumber)
	}
	h := head{item: it, version: annals.SeqNr(d.Required(r.peer.attrCount(), least, most))}
	if r.apart {
		most = int64(h.version)
	}
	deleted, _ := d.Number(attrDeleted, least, most)
	if h.deleted = annals.SeqNr(deleted); r.apart {
		h.events = r.eventsIn(id, &d)
	}
	if n := len(h.events); d.Fault == nil && n > 0 && h.events[n-1].SeqNr != h.version {
		d.Fault = fmt.Errorf("the last event has the number %d, and the head %d", h.events[n-1].SeqNr, h.version)
	}
	if d.Fault != nil {
		return head{}, corrupt(it, &ability.Damage{Code: ability.Head, Err: d.Fault})
	}
	return h, nil
}

// eventsIn decodes the events of the last commit.
func (r rows) eventsIn(id annals.PersistenceID, d *plan.Decoder) (events []annals.Event) {
	list, ok := d.Item[attrEvents].(*types.AttributeValueMemberL)
	if !ok {
		d.Wrong(attrEvents)
		return nil
	}
	for _, v := range list.Value {
		m, ok := v.(*types.AttributeValueMemberM)
		if !ok {
			d.Wrong(attrEvents)
			return nil
		}
		e, err := r.eventIn(id, m.Value)
		if err != nil {
			d.Fault = fmt.Errorf("attribute %q: %w", attrEvents, err)
			return nil
		}
		events = append(events, e)
	}
	return events
}

// headItem returns a new head with a version. more are the attributes of its state, or of its events.
func (r rows) headItem(id annals.PersistenceID, version annals.SeqNr, more plan.Item) (plan.Item, error) {
	it, err := r.headKey(id)
	if err != nil {
		return nil, err
	}
	if it[attrAID] = plan.S(r.aid(id)); r.apart {
		typeName, _, _ := strings.Cut(r.aid(id), "-")
		it[attrType] = plan.S(typeName)
	} else {
		it[attrSeq] = plan.N(0)
		if !r.peer.noTTL {
			it[attrTTL] = plan.N(0)
		}
	}
	it[r.peer.attrCount()] = plan.N(version)
	maps.Copy(it, more)
	return it, nil
}

// read reads the head of id. An id without a head must not have rows.
func (j *journal) read(ctx context.Context, id annals.PersistenceID) (head, error) {
	key, err := j.headKey(id)
	if err != nil {
		return head{}, err
	}
	it, ok, err := j.x.Get(ctx, plan.Get{Table: j.heads, Key: key})
	if err == nil && !ok {
		var found bool
		if found, err = j.snapshots.exist(ctx, id); err == nil {
			it, err = j.readAgain(ctx, id, key, found)
		}
	}
	if err != nil {
		return head{}, err
	}
	return j.learned(id, it)
}

// learned decodes a head that was read.
func (j *journal) learned(id annals.PersistenceID, it plan.Item) (head, error) {
	h, err := j.head(id, it)
	if n := len(h.events); n > 0 {
		j.times.Learn(id, h.events[n-1].Time)
	}
	return h, err
}

// readAgain reads the head at key again if id has rows: those were written after the head was read, or the head is lost. found says
// that the snapshot table has some. Rows at keys of other settings are ErrInvalid.
func (j *journal) readAgain(ctx context.Context, id annals.PersistenceID, key plan.Item, found bool) (plan.Item, error) {
	if !found {
		var err error
		if found, err = j.events.Has(ctx, j.x, id); err != nil || !found {
			return nil, err
		}
	}
	it, ok, err := j.x.Get(ctx, plan.Get{Table: j.heads, Key: key})
	if err == nil && !ok {
		err = j.lost(key)
	}
	return it, err
}

// lost returns the error of an entity whose head should be at key.
func (j *journal) lost(key plan.Item) error {
	return &annals.Error{Kind: annals.ErrCorrupt, Err: &ability.Damage{Code: ability.Head, Err: fmt.Errorf("table %q has no row %s, although the entity has others", j.heads, plan.QuoteKey(key))}}
}
