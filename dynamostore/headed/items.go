package headed

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
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
	attrWriteID    = "write_id"     // of events
	attrDeleted    = "deleted_to"   // of heads: events with numbers up to this one are deleted
	attrSaves      = "saves"        // of heads: how many snapshots were saved without an event
	attrStateNr    = "state_seq_nr" // of heads: the number of the state, where the state itself does not tell it
)

// rows makes and reads the rows of both tables.
type rows struct {
	keys
	peer     peer
	unit     time.Duration // of occurred_at, see peer
	format   Format
	plain    bool // format is Plain
	lean     bool
	writeIDs bool
}

// eventItem returns the row of event n of c, which is stored at the time at.
func (r rows) eventItem(c annals.Commit, n annals.SeqNr, e *annals.NewEvent, at time.Time) (plan.Item, error) {
	it, err := r.row(c.ID, n)
	if err != nil {
		return nil, err
	}
	stored, err := r.format.Event(annals.Event{ID: c.ID, SeqNr: n, Time: at, Payload: e.Payload})
	if err != nil {
		return nil, fmt.Errorf("event %d: %w", n, err)
	}
	it[attrSeq] = plan.N(n)
	it[attrOccurred] = plan.N(inUnit(at, r.unit))
	r.putPayload(it, e.Payload, stored, r.peer.manifest)
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

// putPayload adds the stored form of a payload. manifest says that the library's rows have a manifest, also an empty one.
func (r rows) putPayload(it plan.Item, p annals.Payload, stored []byte, manifest bool) {
	it[attrPayload] = r.payload(stored)
	if manifest || r.plain && p.Manifest != "" {
		it[attrManifest] = plan.S(p.Manifest)
	}
	if r.plain {
		it[attrSerializer] = plan.N(p.SerializerID)
	}
}

// payload returns the attribute for stored bytes.
func (r rows) payload(stored []byte) types.AttributeValue {
	if r.peer.text {
		return plan.S(string(stored))
	}
	return plan.B(stored)
}

// stored returns the bytes of a payload, whether it is a string or binary.
func stored(d *plan.Decoder) []byte {
	if text, ok := plan.Text(d.Item, attrPayload); ok {
		return []byte(text)
	}
	d.Require(attrPayload)
	return d.Bytes(attrPayload)
}

// event decodes the row of an event of id.
func (r rows) event(id annals.PersistenceID, it plan.Item) (annals.Event, error) {
	d := plan.Decoder{Item: it}
	e := annals.Event{ID: id, SeqNr: annals.SeqNr(d.Required(attrSeq, 0, math.MaxInt64))}
	e.Time = inTime(d.Required(attrOccurred, math.MinInt64, math.MaxInt64), r.unit)
	e.Manifest = d.Text(attrManifest)
	serializer, _ := d.Number(attrSerializer, math.MinInt32, math.MaxInt32)
	e.SerializerID = int32(serializer)
	data := stored(&d)
	var err error
	if text := d.Text(attrWriteID); text != "" {
		if e.WriteID, err = annals.ParseWriteID(text); err != nil {
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
	saves   int64        // snapshots saved without an event
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
	h.saves, _ = d.Number(attrSaves, 0, math.MaxInt64)
	if d.Fault != nil {
		return head{}, corrupt(it, d.Fault)
	}
	return h, nil
}

// headItem returns a new head with a version. s is its state; nil for a lean head, or one without a state.
func (r rows) headItem(id annals.PersistenceID, version annals.SeqNr, s *annals.Snapshot, at time.Time) (plan.Item, error) {
	it, err := r.row(id, 0)
	if err != nil {
		return nil, err
	}
	it[attrSeq], it[attrVersion] = plan.N(0), plan.N(version)
	if s == nil {
		return it, nil
	}
	if !r.peer.noTTL {
		it[attrTTL] = plan.N(0)
	}
	set, err := r.stateOf(*s, version, at)
	if err != nil {
		return nil, err
	}
	for name, v := range set {
		it[name] = v
	}
	return it, nil
}

// stateOf returns the attributes of a head that change with its state. version is that of the head after the write.
func (r rows) stateOf(s annals.Snapshot, version annals.SeqNr, at time.Time) (plan.Item, error) {
	stored, err := r.format.Snapshot(s, int64(version))
	if err != nil {
		return nil, fmt.Errorf("snapshot %d: %w", s.SeqNr, err)
	}
	it := plan.Item{attrSeq: plan.N(0)}
	if r.peer.stateNr {
		it[attrSeq] = plan.N(s.SeqNr)
	}
	r.putPayload(it, s.Payload, stored, false)
	if r.plain {
		it[attrStateNr] = plan.N(s.SeqNr)
	}
	r.putUpdated(it, at)
	return it, nil
}

// copyItem returns the copy of a state. before and after are the versions of the head before and after the write.
func (r rows) copyItem(s annals.Snapshot, before, after annals.SeqNr, active bool, at time.Time) (plan.Item, error) {
	it, err := r.row(s.ID, s.SeqNr)
	if err != nil {
		return nil, err
	}
	stored, err := r.format.Snapshot(s, int64(after))
	if err != nil {
		return nil, fmt.Errorf("snapshot %d: %w", s.SeqNr, err)
	}
	it[attrSeq] = plan.N(s.SeqNr)
	it[attrVersion] = plan.N(r.peer.copyVersion.of(before, after))
	r.putPayload(it, s.Payload, stored, false)
	r.putUpdated(it, at)
	if !r.peer.noTTL {
		it[attrTTL] = plan.N(0)
	}
	if active {
		it[attrActive] = plan.N(s.SeqNr)
	}
	return it, nil
}

func (v copyVersion) of(before, after annals.SeqNr) annals.SeqNr {
	switch v {
	case versionBefore:
		return max(before, 1)
	case versionAfter:
		return after
	}
	return 1
}

// putUpdated adds last_updated_at where the library writes it.
func (r rows) putUpdated(it plan.Item, at time.Time) {
	if !r.peer.noUpdated {
		it[attrUpdated] = plan.N(inUnit(at, r.peer.updated))
	}
}

// state decodes the state in a snapshot row of id: a head, a copy or the current row. false when the head has none.
func (r rows) state(id annals.PersistenceID, it plan.Item) (annals.Snapshot, bool, error) {
	if it[attrPayload] == nil {
		return annals.Snapshot{}, false, nil
	}
	d := plan.Decoder{Item: it}
	s := annals.Snapshot{ID: id, SeqNr: annals.SeqNr(d.Required(attrSeq, 0, math.MaxInt64))}
	if n, ok := d.Number(attrStateNr, 1, math.MaxInt64); ok {
		s.SeqNr = annals.SeqNr(n)
	}
	if n, ok := d.Number(attrUpdated, math.MinInt64, math.MaxInt64); ok {
		s.Time = inTime(n, r.peer.updated)
	}
	s.Manifest = d.Text(attrManifest)
	serializer, _ := d.Number(attrSerializer, math.MinInt32, math.MaxInt32)
	s.SerializerID = int32(serializer)
	data := stored(&d)
	err := d.Fault
	if err == nil {
		s.Payload, s.SeqNr, err = r.format.ReadSnapshot(s, data)
	}
	if err == nil && s.SeqNr < 1 {
		err = errors.New("the state has no number")
	}
	if err != nil {
		return annals.Snapshot{}, false, corrupt(it, err)
	}
	return s, true, nil
}

// inUnit returns t as a number of units since 1970. Without a unit it is the milliseconds within the second.
func inUnit(t time.Time, unit time.Duration) int64 {
	switch unit {
	case 0:
		return int64(t.Nanosecond()) / int64(time.Millisecond)
	case time.Nanosecond:
		return t.UnixNano()
	}
	return t.UnixMicro() / int64(cmp.Or(unit/time.Microsecond, 1))
}

// inTime returns the time that inUnit has made a number of; the zero time without a unit. Times are in microseconds.
func inTime(n int64, unit time.Duration) time.Time {
	switch unit {
	case 0:
		return time.Time{}
	case time.Nanosecond:
		return time.Unix(0, n).UTC().Truncate(time.Microsecond)
	case time.Microsecond:
		return time.UnixMicro(n).UTC()
	case time.Millisecond:
		return time.UnixMilli(n).UTC()
	}
	return time.Unix(n, 0).UTC()
}

// corrupt returns the error of a row that is not valid. An error of a Format can say itself what it is.
func corrupt(it plan.Item, err error) error {
	return &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("row %s %s: %w", annals.Quote(plan.KeyText(it[attrPartition])), annals.Quote(plan.KeyText(it[attrSort])), err)}
}
