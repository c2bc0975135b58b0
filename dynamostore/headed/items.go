package headed

import (
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/quote"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Attributes of both tables.
const (
	attrPartition = "pkey"
	attrSort      = "skey"
	attrAID       = "aid"
	attrSeq       = "seq_nr"
	attrPayload   = "payload"
	attrManifest  = "manifest"
)

// Attributes of the libraries in one table.
const (
	attrOccurred = "occurred_at"       // of events
	attrVersion  = "version"           // of snapshot rows
	attrTTL      = "ttl"               // of snapshot rows: when the service removes the row, in seconds since 1970; 0 is never
	attrUpdated  = "last_updated_at"   // of snapshot rows
	attrActive   = "active_ttl_seq_nr" // of copies that do not expire
)

// Attributes of this package, which the libraries ignore and keep.
const (
	attrSerializer = "serializer"
	attrWriteID    = "write_id"   // of events
	attrDeleted    = "deleted_to" // of heads: events with numbers up to this one are deleted
	attrSaves      = "saves"      // of heads: how many snapshots were saved without an event
	attrState      = "state"      // of snapshot rows: what their state is, where its payload does not tell it
	attrHidden     = "hidden"     // of heads: the number of the state that was deleted, and stays for the libraries
)

// rows makes and reads the rows of both tables.
type rows struct {
	keys
	peer     peer
	unit     time.Duration // of occurred_at, see peer
	format   Format
	plain    bool // format is Plain
	formula  bool // keys are those of a library, whose sort keys end in the number
	lean     bool
	writeIDs bool
}

// eventItem returns the row of event n of c. at is its time.
func (r rows) eventItem(c annals.Commit, n annals.SeqNr, e *annals.NewEvent, at time.Time) (plan.Item, error) {
	it, err := r.row(c.ID, n)
	if err == nil {
		err = r.timeFault(n, at)
	}
	if err != nil {
		return nil, err
	}
	stored, err := r.format.Event(annals.Event{ID: c.ID, SeqNr: n, Time: at, Payload: e.Payload})
	if err != nil {
		return nil, invalid("event", n, err)
	}
	it[attrSeq] = plan.N(n)
	it[attrOccurred] = plan.N(inUnit(at, r.unit))
	r.putPayload(it, e.Payload, stored)
	if r.writeIDs {
		it[attrWriteID] = plan.S(c.WriteID.String())
	}
	return it, nil
}

// row returns a row of either table with its key and its aggregate id.
func (r rows) row(id annals.PersistenceID, n annals.SeqNr) (plan.Item, error) {
	it, err := r.key(id, n)
	if err != nil {
		return nil, err
	}
	it[attrAID] = plan.S(r.aid(id))
	return it, nil
}

// putPayload adds the stored form of an event's payload. The rows of Rust3 have a manifest, also an empty one.
func (r rows) putPayload(it plan.Item, p annals.Payload, stored []byte) {
	it[attrPayload] = r.payload(stored)
	if r.peer.manifest || r.plain && p.Manifest != "" {
		it[attrManifest] = plan.S(p.Manifest)
	}
	if r.plain && p.SerializerID != jsonSerializer {
		it[attrSerializer] = plan.N(p.SerializerID)
	}
}

// payload returns the attribute for stored bytes. A string cannot have all bytes, so plain payloads are binary whatever the peer writes.
func (r rows) payload(stored []byte) types.AttributeValue {
	if r.peer.text && !r.plain {
		return plan.S(string(stored))
	}
	return plan.B(stored)
}

// stored returns the bytes of a payload, whether it is a string or binary.
func stored(d *plan.Decoder) []byte {
	if data, ok := plan.Bytes(d.Item, attrPayload); ok {
		return data
	}
	text, ok := plan.Text(d.Item, attrPayload)
	if !ok {
		d.Wrong(attrPayload)
	}
	return []byte(text)
}

// event decodes the row of an event of id.
func (r rows) event(id annals.PersistenceID, it plan.Item) (annals.Event, error) {
	d := plan.Decoder{Item: it}
	e := annals.Event{ID: id, SeqNr: annals.SeqNr(d.Required(attrSeq, 0, math.MaxInt64))}
	e.Time = inTime(d.Required(attrOccurred, math.MinInt64, math.MaxInt64), r.unit)
	e.Manifest = d.Text(attrManifest)
	e.SerializerID = jsonSerializer
	if n, ok := d.Number(attrSerializer, math.MinInt32, math.MaxInt32); ok {
		e.SerializerID = int32(n)
	}
	data := stored(&d)
	var err error
	if text := d.Text(attrWriteID); text != "" {
		if e.WriteID, err = driver.ParseWriteID(text); err != nil {
			d.Wrong(attrWriteID)
		}
	}
	if err = d.Fault; err == nil {
		e.Payload, err = r.format.ReadEvent(e, data)
	}
	if err != nil {
		return annals.Event{}, corrupt(it, err)
	}
	return e, nil
}

// head is the head of an aggregate.
type head struct {
	version annals.SeqNr // how many events were ever stored: the last number, unless a library has left numbers unused
	deleted annals.SeqNr // events up to this number are deleted
	item    plan.Item    // nil when there is no head
}

// head decodes the row of a head; the zero head when it is nil.
func (r rows) head(it plan.Item) (head, error) {
	if it == nil {
		return head{}, nil
	}
	d := plan.Decoder{Item: it}
	h := head{item: it, version: annals.SeqNr(d.Required(attrVersion, 0, math.MaxInt64))}
	deleted, _ := d.Number(attrDeleted, 0, math.MaxInt64)
	h.deleted = annals.SeqNr(deleted)
	if d.Fault != nil {
		return head{}, corrupt(it, d.Fault)
	}
	return h, nil
}

// headItem returns a new head with a version. state are the attributes of its state; nil for a lean head.
func (r rows) headItem(id annals.PersistenceID, version annals.SeqNr, state plan.Item) (plan.Item, error) {
	it, err := r.row(id, 0)
	if err != nil {
		return nil, err
	}
	it[attrSeq], it[attrVersion] = plan.N(0), plan.N(version)
	if !r.lean && !r.peer.noTTL {
		it[attrTTL] = plan.N(0)
	}
	maps.Copy(it, state)
	return it, nil
}

// timeFault returns an error if event n cannot have the time at: 64 bits of nanoseconds end, and later milliseconds are taken for another unit.
func (r rows) timeFault(n annals.SeqNr, at time.Time) error {
	first, end := time.Time{}, at
	switch r.unit {
	case time.Nanosecond:
		first, end = time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)
	case time.Millisecond:
		end = time.UnixMilli(mostMillis + 1).Add(-1)
	}
	if at.Before(first) || at.After(end) {
		return invalid("event", n, fmt.Errorf("the time %v is not between %v and %v", at, first.UTC(), end.UTC()))
	}
	return nil
}

// inUnit returns t as a number of units since 1970, rounded down. Without a unit it is the milliseconds within the second.
func inUnit(t time.Time, unit time.Duration) int64 {
	switch unit {
	case 0:
		return int64(t.Nanosecond()) / int64(time.Millisecond)
	case time.Nanosecond:
		return t.UnixNano()
	case time.Microsecond:
		return t.UnixMicro()
	case time.Millisecond:
		return t.UnixMilli()
	}
	return t.Unix()
}

// inTime returns the time that inUnit has made a number of; the zero time without a unit.
func inTime(n int64, unit time.Duration) time.Time {
	switch unit {
	case 0:
		return time.Time{}
	case time.Nanosecond:
		return time.Unix(0, n).UTC()
	case time.Microsecond:
		return time.UnixMicro(n).UTC()
	case time.Millisecond:
		return time.UnixMilli(n).UTC()
	}
	return time.Unix(n, 0).UTC()
}

// corrupt returns the error of a row that is not valid. An error of a Format can say itself what it is.
func corrupt(it plan.Item, err error) error {
	return &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("row %s %s: %w", quote.Text(plan.KeyText(it[attrPartition])), quote.Text(plan.KeyText(it[attrSort])), err)}
}
