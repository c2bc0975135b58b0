package headtable

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Attributes. Those of an event are in the journal, and in the list of a head.
const (
	attrAID      = "aid"
	attrSeq      = "seq_nr"
	attrTime     = "occurred_at" // nanoseconds since 1970
	attrManifest = "manifest"
	attrPayload  = "payload"

	attrType   = "type_name"
	attrEvents = "events"

	attrPlace  = "skey"
	attrSaved  = "last_updated_at" // milliseconds since 1970
	attrActive = "active_history_seq_nr"
	attrExpiry = "ttl" // seconds since 1970
)

// Attributes that the library does not have.
const (
	attrSerializer = "serializer" // of a payload that is not JSON
	attrWriteID    = "write_id"
	attrDeleted    = "deleted_to"
)

// jsonSerializer is codec.JSONSerializer.
const jsonSerializer = 31

// maxSeqNr is the highest number that the library takes.
const maxSeqNr annals.SeqNr = 1<<53 - 1

// The bounds of times.
var (
	minTime = time.Unix(0, math.MinInt64)
	maxTime = time.Unix(0, math.MaxInt64)
)

// fault returns the error of a write that the tables have no place for.
func fault(text string, args ...any) error {
	return &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf(text, args...)}
}

func putPayload(it plan.Item, p annals.Payload) {
	it[attrManifest], it[attrPayload] = plan.S(p.Manifest), plan.B(p.Data)
	if p.SerializerID != jsonSerializer {
		it[attrSerializer] = plan.N(p.SerializerID)
	}
}

func payload(d *plan.Decoder) annals.Payload {
	d.Require(attrManifest, attrPayload)
	p := annals.Payload{SerializerID: jsonSerializer, Manifest: d.Text(attrManifest), Data: d.Bytes(attrPayload)}
	if n, ok := d.Number(attrSerializer, math.MinInt32, math.MaxInt32); ok {
		p.SerializerID = int32(n)
	}
	return p
}

// eventItem returns the attributes of event n, without the key aid.
func (j *journal) eventItem(c annals.Commit, n annals.SeqNr, e *annals.NewEvent, now time.Time) (it plan.Item, at time.Time, err error) {
	at = now
	if !e.Time.IsZero() {
		at = e.Time.UTC()
	}
	if at.Before(minTime) || at.After(maxTime) {
		return nil, at, fault("event %d has the time %v, which is not between %v and %v", n, at, minTime.UTC(), maxTime.UTC())
	}
	it = plan.Item{attrSeq: plan.N(n), attrTime: plan.N(at.UnixNano())}
	putPayload(it, e.Payload)
	if j.writeIDs {
		it[attrWriteID] = plan.S(c.WriteID.String())
	}
	return it, at, nil
}

// eventOf decodes an event of the journal or of a head.
func eventOf(id annals.PersistenceID, it plan.Item) (annals.Event, error) {
	d := plan.Decoder{Item: it}
	e := annals.Event{ID: id, SeqNr: annals.SeqNr(d.Required(attrSeq, 1, int64(maxSeqNr))), Time: time.Unix(0, d.Required(attrTime, math.MinInt64, math.MaxInt64)).UTC(), Payload: payload(&d)}
	if text := d.Text(attrWriteID); text != "" {
		w, err := driver.ParseWriteID(text)
		if e.WriteID = w; err != nil {
			d.Wrong(attrWriteID)
		}
	}
	return e, d.Fault
}

// head is the item of an entity in the head table. The zero head is that of an entity that was never written.
type head struct {
	last    annals.SeqNr
	deleted annals.SeqNr   // events up to this number are deleted
	events  []annals.Event // of the last commit
}

// time is the time of the last event.
func (h head) time() (t time.Time) {
	if n := len(h.events); n > 0 {
		t = h.events[n-1].Time
	}
	return t
}

// headItem returns the item of a head.
func headItem(aid string, last annals.SeqNr, events types.AttributeValue) plan.Item {
	typeName, _, _ := strings.Cut(aid, "-")
	it := headKey(aid)
	it[attrType], it[attrSeq], it[attrEvents] = plan.S(typeName), plan.N(last), events
	return it
}

// headOf decodes an item of the head table; nil is the zero head.
func headOf(id annals.PersistenceID, it plan.Item) (h head, err error) {
	if it == nil {
		return h, nil
	}
	d := plan.Decoder{Item: it}
	h.last = annals.SeqNr(d.Required(attrSeq, 1, int64(maxSeqNr)))
	if deleted, ok := d.Number(attrDeleted, 1, int64(h.last)); ok {
		h.deleted = annals.SeqNr(deleted)
	}
	list, ok := it[attrEvents].(*types.AttributeValueMemberL)
	if !ok {
		d.Wrong(attrEvents)
	}
	if d.Fault != nil {
		return head{}, d.Fault
	}
	for _, v := range list.Value {
		m, ok := v.(*types.AttributeValueMemberM)
		if !ok {
			d.Wrong(attrEvents)
			return head{}, d.Fault
		}
		e, err := eventOf(id, m.Value)
		if err != nil {
			return head{}, fmt.Errorf("attribute %q: %w", attrEvents, err)
		}
		h.events = append(h.events, e)
	}
	if n := len(h.events); n > 0 && h.events[n-1].SeqNr != h.last {
		return head{}, fmt.Errorf("the last event has the number %d, and the head %d", h.events[n-1].SeqNr, h.last)
	}
	return h, nil
}

// corrupt returns the error of an item that is not valid. names are the attributes of its key.
func corrupt(table string, it plan.Item, err error, names ...string) error {
	key := plan.Item{}
	for _, name := range names {
		key[name] = it[name]
	}
	return &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("table %q, item %s: %w", table, plan.QuoteKey(key), err)}
}
