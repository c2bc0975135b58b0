package esa

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/jsonobject"
	"github.com/annals-go/annals/internal/quote"
)

// JSON returns the Format of the libraries other than Rust3: a payload is one JSON object, which has the metadata of its event or state among its
// members. The manifest of an event is its member "type". The manifest of a state is the entity's type, or its member "manifest".
//
// What is read is the whole object. What is written is the object of a domain type, with the members that are missing in front of its own;
// members that it has stay as they are. So data that has all members is stored byte for byte. A number, manifest or id in the data that is
// not the one of the event or state is refused, when it is written and when it is read. The serializer id is that of JSON (31).
func JSON(m Members) Format {
	f := m.named()
	return Format{Event: f.event, ReadEvent: f.readEvent, Snapshot: f.snapshot, ReadSnapshot: f.readSnapshot, unnumbered: f.SeqNr == "-"}
}

// Members are the names of the members, since every application chooses its own. "" is the name in the comment, and "-" says that the
// payloads do not have this member: then it is neither written nor read.
type Members struct {
	Type        string // "type": the manifest of an event
	AggregateID string // "aggregate_id" of an event: {"type": …, "value": …}. Another form is not written, and not checked
	SeqNr       string // "seq_nr" of events and states. "-" is for Rust3 and Seed only: in the rows of the others the number of a state is only in its payload
	IsCreated   string // "is_created" of an event: whether it is the first
	OccurredAt  string // "occurred_at" of an event, such as "2026-03-01T09:00:01.037Z"

	ID            string // "id" of a state, as AggregateID
	Version       string // "version" of a state
	LastUpdatedAt string // "last_updated_at" of a state, as OccurredAt
	Manifest      string // "manifest" of a state, written if it is not the entity's type

	// Wrapped is for JS: the object is the member "data" of another one, whose member "type" is the manifest of the event or state. Type and
	// Manifest are not used then.
	Wrapped bool
}

const isoMillis = "2006-01-02T15:04:05.000Z"

// jsonFormat is the Format of JSON, with all names.
type jsonFormat Members

func (m Members) named() jsonFormat {
	if m.Wrapped { // a wrapped object has no manifest of its own: a member "type" is the application's
		m.Type, m.Manifest = "-", "-"
	}
	return jsonFormat{
		Type: cmp.Or(m.Type, "type"), AggregateID: cmp.Or(m.AggregateID, "aggregate_id"), SeqNr: cmp.Or(m.SeqNr, "seq_nr"),
		IsCreated: cmp.Or(m.IsCreated, "is_created"), OccurredAt: cmp.Or(m.OccurredAt, "occurred_at"),
		ID: cmp.Or(m.ID, "id"), Version: cmp.Or(m.Version, "version"), LastUpdatedAt: cmp.Or(m.LastUpdatedAt, "last_updated_at"),
		Manifest: cmp.Or(m.Manifest, "manifest"), Wrapped: m.Wrapped,
	}
}

func (f jsonFormat) event(e annals.Event) ([]byte, error) {
	o, err := written(e.Payload)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(o.isManifest(f.Type, e.Manifest), o.isNumber(f.SeqNr, e.SeqNr), o.isOf(f.AggregateID, e.ID)); err != nil {
		return nil, err
	}
	o.add(f.Type, jsonobject.Quote(e.Manifest))
	o.add(f.AggregateID, idObject(e.ID))
	o.add(f.SeqNr, strconv.FormatInt(int64(e.SeqNr), 10))
	o.add(f.IsCreated, strconv.FormatBool(e.SeqNr == 1))
	o.add(f.OccurredAt, isoText(e.Time))
	return f.wrapped(e.Manifest, o), nil
}

func (f jsonFormat) readEvent(e annals.Event, stored []byte) (annals.Payload, error) {
	var few [jsonobject.Usual]jsonobject.Member // a load does this for each event
	o, manifest, data, err := f.unwrapped(few[:0], stored)
	if err == nil && f.Type != "-" {
		manifest, err = o.text(f.Type)
	}
	if err != nil {
		return annals.Payload{}, err
	}
	return annals.Payload{SerializerID: jsonSerializer, Manifest: manifest, Data: data}, cmp.Or(o.isNumber(f.SeqNr, e.SeqNr), o.isOf(f.AggregateID, e.ID))
}

func (f jsonFormat) snapshot(s annals.Snapshot, version int64) ([]byte, error) {
	o, err := written(s.Payload)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(o.isNumber(f.SeqNr, s.SeqNr), o.isOf(f.ID, s.ID)); err != nil {
		return nil, err
	}
	o.add(f.ID, idObject(s.ID))
	o.add(f.SeqNr, strconv.FormatInt(int64(s.SeqNr), 10))
	o.add(f.Version, strconv.FormatInt(version, 10))
	o.add(f.LastUpdatedAt, isoText(s.Time))
	if !f.Wrapped && f.manifest(o, s.ID) != s.Manifest {
		if f.Manifest == "-" || o.Member(f.Manifest) != nil {
			return nil, otherManifest(f.Manifest, s.Manifest)
		}
		o.add(f.Manifest, jsonobject.Quote(s.Manifest))
	}
	return f.wrapped(s.Manifest, o), nil
}

func (f jsonFormat) readSnapshot(s annals.Snapshot, stored []byte) (annals.Snapshot, error) {
	o, manifest, data, err := f.unwrapped(nil, stored)
	if err != nil {
		return s, err
	}
	if !f.Wrapped {
		manifest = f.manifest(&o, s.ID)
	}
	if f.SeqNr != "-" {
		if s.SeqNr, err = o.number(f.SeqNr); err != nil {
			return s, err
		}
	}
	if at, err := o.text(f.LastUpdatedAt); err == nil {
		if at, err := time.Parse(time.RFC3339Nano, at); err == nil {
			s.Time = at.UTC()
		}
	}
	s.Payload = annals.Payload{SerializerID: jsonSerializer, Manifest: manifest, Data: data}
	return s, o.isOf(f.ID, s.ID)
}

// manifest is that of a state that is not wrapped.
func (f jsonFormat) manifest(o *object, id annals.PersistenceID) string {
	if manifest, err := o.text(f.Manifest); err == nil {
		return manifest
	}
	return id.Type()
}

// wrapped returns the bytes to store.
func (f jsonFormat) wrapped(manifest string, o *object) []byte {
	if !f.Wrapped {
		return o.Bytes()
	}
	return fmt.Appendf(nil, `{"type":%s,"data":%s}`, jsonobject.Quote(manifest), o.Bytes())
}

// unwrapped returns the object in stored with its bytes, and the manifest of a wrapped one. few is memory for its members.
func (f jsonFormat) unwrapped(few []jsonobject.Member, stored []byte) (o object, manifest string, data []byte, err error) {
	var ok bool
	if o.Object, ok = jsonobject.Parse(few, stored); !ok {
		return o, "", nil, errNoObject
	}
	if !f.Wrapped {
		return o, "", stored, nil
	}
	if manifest, err = o.text("type"); err != nil {
		return o, "", nil, err
	}
	data = o.Member("data")
	if o.Object, ok = o.Object.Object(few, "data"); !ok {
		return o, "", nil, fmt.Errorf("member %q: %w", "data", errNoObject)
	}
	return o, manifest, data, nil
}

var errNoObject = errors.New("the data is no JSON object")

// object is a payload. A member with the name "-" is none.
type object struct{ jsonobject.Object }

// written returns the object in a payload that is to be written.
func written(p annals.Payload) (*object, error) {
	if p.SerializerID != jsonSerializer {
		return nil, fmt.Errorf("the serializer id is %d, the tables hold JSON, which is %d", p.SerializerID, jsonSerializer)
	}
	if !utf8.Valid(p.Data) {
		return nil, errors.New("the data is not valid UTF-8")
	}
	o, ok := jsonobject.Parse(make([]jsonobject.Member, 0, jsonobject.Usual), p.Data)
	if !ok {
		return nil, errNoObject
	}
	return &object{o}, nil
}

// add adds a member that o does not have. value is JSON.
func (o *object) add(name, value string) {
	if name != "-" {
		o.Add(name, value)
	}
}

// text returns a member that is a text.
func (o *object) text(name string) (string, error) {
	s, ok := o.Text(name)
	if name == "-" || !ok {
		return "", fmt.Errorf("the data has no text %q", name)
	}
	return string(s), nil
}

// number returns a member that is the number of an event. It must not pass through a float64, which has 53 bits.
func (o *object) number(name string) (annals.SeqNr, error) {
	n, err := strconv.ParseInt(string(o.Member(name)), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("the data has no whole number %q", name)
	}
	return annals.SeqNr(n), nil
}

// isManifest returns an error when o has a member of that name which is not want.
func (o *object) isManifest(name, want string) error {
	if name == "-" || o.Member(name) == nil {
		return nil
	}
	if s, ok := o.Text(name); !ok || string(s) != want {
		return otherManifest(name, want)
	}
	return nil
}

func otherManifest(name, want string) error {
	return fmt.Errorf("the manifest is %s, and member %q of the data is another", quote.Text(want), name)
}

// isNumber is isManifest for a number.
func (o *object) isNumber(name string, want annals.SeqNr) error {
	if name == "-" || o.Member(name) == nil {
		return nil
	}
	n, err := o.number(name)
	if err == nil && n != want {
		err = fmt.Errorf("the number is %d, member %q of the data says %d", want, name, n)
	}
	return err
}

// isOf returns an error when o has an id in the form of idObject that is not id.
func (o *object) isOf(name string, id annals.PersistenceID) error {
	if name == "-" {
		return nil
	}
	var few [2]jsonobject.Member
	of, _ := o.Object.Object(few[:0], name)
	entityType, typed := of.Text("type")
	value, valued := of.Text("value")
	if typed && valued && (string(entityType) != id.Type() || string(value) != id.EntityID()) {
		return fmt.Errorf("member %q of the data is the id of another entity", name)
	}
	return nil
}

// idObject is an id as the libraries' payloads have it.
func idObject(id annals.PersistenceID) string {
	return `{"type":` + jsonobject.Quote(id.Type()) + `,"value":` + jsonobject.Quote(id.EntityID()) + "}"
}

// isoText is a time as Date.toISOString of JavaScript formats it, as JSON.
func isoText(t time.Time) string { return t.UTC().Format(`"` + isoMillis + `"`) }
