package esa

import (
	"fmt"
	"math"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/writes"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Attributes of all tables.
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
	attrOccurred = "occurred_at"     // of events
	attrVersion  = "version"         // of heads and copies, but for Rust5
	attrTTL      = "ttl"             // of snapshot rows: when the service removes the row, in seconds since 1970; 0 is never
	attrUpdated  = "last_updated_at" // of snapshot rows
	attrType     = "type_name"       // of heads of Rust5
	attrEvents   = "events"          // of heads of Rust5: the events of the last commit
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

// maxNumber is the highest number that Rust5 takes.
const maxNumber annals.SeqNr = 1<<53 - 1

// rows makes and reads the rows of the tables.
type rows struct {
	keys
	peer     peer
	unit     time.Duration // of occurred_at, see peer
	format   Format
	formula  bool // keys are those of a library, whose sort keys end in the number
	writeIDs bool
}

// create returns the op that puts it if there is no row at its key.
func (r rows) create(table string, it plan.Item) plan.Op {
	if r.apart {
		return plan.Create(table, it, attrAID)
	}
	return plan.Create(table, it, attrPartition)
}

// eventItem returns the row of event n of c. at is its time.
func (r rows) eventItem(c annals.Commit, n annals.SeqNr, e *annals.NewEvent, at time.Time) (plan.Item, error) {
	it, err := r.key(c.ID, n)
	if err == nil {
		err = r.timeFault(n, at)
	}
	if err != nil {
		return nil, err
	}
	stored, err := r.format.Event(annals.Event{ID: c.ID, SeqNr: n, Time: at, Payload: e.Payload})
	if err != nil {
		return nil, unfit("event", n, err)
	}
	it[attrAID], it[attrSeq], it[attrOccurred] = plan.S(r.aid(c.ID)), plan.N(n), plan.N(inUnit(at, r.unit))
	r.putPayload(it, e.Payload, stored)
	if r.writeIDs {
		it[attrWriteID] = plan.S(c.WriteID.String())
	}
	return it, nil
}

// putPayload adds the stored form of a payload. The rows of Rust3 and Rust5 have a manifest, also an empty one.
func (r rows) putPayload(it plan.Item, p annals.Payload, stored []byte) {
	it[attrPayload] = r.stored(stored)
	if r.peer.manifest || r.format.plain && p.Manifest != "" {
		it[attrManifest] = plan.S(p.Manifest)
	}
	if r.format.plain && p.SerializerID != jsonSerializer {
		it[attrSerializer] = plan.N(p.SerializerID)
	}
}

// stored is the attribute for a stored payload. A string cannot have all bytes, so plain payloads are binary whatever the peer writes.
func (r rows) stored(data []byte) types.AttributeValue {
	if r.peer.text && !r.format.plain {
		return plan.S(string(data))
	}
	return plan.B(data)
}

// readStored returns the bytes of a stored payload, which is binary, or a string as Seed writes it.
func (r rows) readStored(d *plan.Decoder) []byte {
	if text, ok := plan.Text(d.Item, attrPayload); ok && !r.apart {
		return []byte(text)
	}
	return d.Bytes(attrPayload)
}

// payload decodes what putPayload has added; its Data is what is stored.
func (r rows) payload(d *plan.Decoder) annals.Payload {
	if d.Require(attrPayload); r.apart {
		d.Require(attrManifest)
	}
	p := annals.Payload{SerializerID: jsonSerializer, Manifest: d.Text(attrManifest), Data: r.readStored(d)}
	if n, ok := d.Number(attrSerializer, math.MinInt32, math.MaxInt32); ok {
		p.SerializerID = int32(n)
	}
	return p
}

// event decodes the row of an event of id.
func (r rows) event(id annals.PersistenceID, it plan.Item) (annals.Event, error) {
	e, err := r.eventIn(id, it)
	if err != nil {
		return annals.Event{}, corrupt(it, &ability.Damage{Code: ability.Unreadable, From: e.SeqNr, To: e.SeqNr, Err: err})
	}
	return e, nil
}

// eventIn decodes the attributes of an event of id, in a row of the journal or in a head.
func (r rows) eventIn(id annals.PersistenceID, it plan.Item) (e annals.Event, err error) {
	d, least, most := plan.Decoder{Item: it}, int64(0), int64(math.MaxInt64)
	if r.apart {
		least, most = 1, int64(maxNumber)
	}
	e = annals.Event{ID: id, SeqNr: annals.SeqNr(d.Required(attrSeq, least, most)), Time: inTime(d.Required(attrOccurred, math.MinInt64, math.MaxInt64), r.unit), Payload: r.payload(&d)}
	if text := d.Text(attrWriteID); text != "" {
		if e.WriteID, err = writes.ParseID(text); err != nil {
			d.Wrong(attrWriteID)
		}
	}
	if err = d.Fault; err == nil {
		e.Payload, err = r.format.ReadEvent(e, e.Data)
	}
	if err != nil && r.apart { // the key of other rows has the number
		err = fmt.Errorf("event %d: %w", e.SeqNr, err)
	}
	return e, err
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
		return plan.Misfit("event %d has the time %v, which is not between %v and %v", n, at, first.UTC(), end.UTC())
	}
	return nil
}

// inUnit returns t as a number of units since 1970, rounded down. Without a unit it is the milliseconds within the second.
func inUnit(t time.Time, unit time.Duration) int64 {
	if unit == 0 {
		return int64(t.Nanosecond()) / int64(time.Millisecond)
	}
	return t.Unix()*int64(time.Second/unit) + int64(t.Nanosecond())/int64(unit)
}

// inTime returns the time that inUnit has made a number of; the zero time without a unit.
func inTime(n int64, unit time.Duration) time.Time {
	if unit == 0 {
		return time.Time{}
	}
	each := int64(time.Second / unit)
	return time.Unix(n/each, n%each*int64(unit)).UTC()
}

// corrupt returns the error of a row that is not valid. An error of a Format can say itself what it is.
func corrupt(it plan.Item, err error) error {
	key := plan.Item{}
	for _, name := range []string{attrPartition, attrAID, attrSort} {
		if it[name] != nil && (name != attrAID || it[attrPartition] == nil) {
			key[name] = it[name]
		}
	}
	return &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("row %s: %w", plan.QuoteKey(key), err)}
}
