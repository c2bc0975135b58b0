package headed

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/quote"
)

// JSON is the Format of the libraries other than Rust3: a payload is one JSON object, which has the metadata of its event or state among its
// members. The manifest of an event is its member "type". The manifest of a state is the entity's type, or its member "manifest".
//
// What is read is the whole object. What is written is the object of a domain type, with the members that are missing in front of its own;
// members that it has stay as they are. So data that has all members is stored byte for byte. A number, manifest or id in the data that is
// not the one of the event or state is refused, when it is written and when it is read. The serializer id is that of JSON (31).
//
// The fields are the names of the members, since every application chooses its own. "" is the name in the comment, and "-" says that the
// payloads do not have this member: then it is neither written nor read.
type JSON struct {
	Type        string // "type": the manifest of an event
	AggregateID string // "aggregate_id" of an event: {"type": …, "value": …}. Another form is not written, and not checked
	SeqNr       string // "seq_nr" of events and states. "-" is for Seed only: in the rows of the others the number of a state is only in its payload
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

// isoMillis is a time as Date.toISOString of JavaScript formats it.
const isoMillis = "2006-01-02T15:04:05.000Z"

// named returns f with all names. A wrapped object has no manifest of its own: a member "type" is the application's.
func (f JSON) named() JSON {
	if f.Wrapped {
		f.Type, f.Manifest = "-", "-"
	}
	return JSON{
		Type: cmp.Or(f.Type, "type"), AggregateID: cmp.Or(f.AggregateID, "aggregate_id"), SeqNr: cmp.Or(f.SeqNr, "seq_nr"),
		IsCreated: cmp.Or(f.IsCreated, "is_created"), OccurredAt: cmp.Or(f.OccurredAt, "occurred_at"),
		ID: cmp.Or(f.ID, "id"), Version: cmp.Or(f.Version, "version"), LastUpdatedAt: cmp.Or(f.LastUpdatedAt, "last_updated_at"),
		Manifest: cmp.Or(f.Manifest, "manifest"), Wrapped: f.Wrapped,
	}
}

// Event is Format.
func (f JSON) Event(e annals.Event) ([]byte, error) {
	f = f.named()
	o, err := written(e.Payload)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(o.isManifest(f.Type, e.Manifest), o.isNumber(f.SeqNr, e.SeqNr), o.isOf(f.AggregateID, e.ID)); err != nil {
		return nil, err
	}
	o.addText(f.Type, e.Manifest)
	o.add(f.AggregateID, idObject(e.ID))
	o.add(f.SeqNr, strconv.FormatInt(int64(e.SeqNr), 10))
	o.add(f.IsCreated, strconv.FormatBool(e.SeqNr == 1))
	o.addText(f.OccurredAt, e.Time.UTC().Format(isoMillis))
	return f.wrapped(e.Manifest, o), nil
}

// ReadEvent is Format.
func (f JSON) ReadEvent(e annals.Event, stored []byte) (annals.Payload, error) {
	f = f.named()
	var few [usual]member
	o, manifest, data, err := f.unwrapped(few[:0], stored)
	if err != nil {
		return annals.Payload{}, err
	}
	if f.Type != "-" {
		if manifest, err = o.text(f.Type); err != nil {
			return annals.Payload{}, err
		}
	}
	err = cmp.Or(o.isNumber(f.SeqNr, e.SeqNr), o.isOf(f.AggregateID, e.ID))
	return annals.Payload{SerializerID: jsonSerializer, Manifest: manifest, Data: data}, err
}

// Snapshot is Format.
func (f JSON) Snapshot(s annals.Snapshot, version int64) ([]byte, error) {
	f = f.named()
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
	o.addText(f.LastUpdatedAt, s.Time.UTC().Format(isoMillis))
	if !f.Wrapped && f.manifest(o, s.ID) != s.Manifest {
		if f.Manifest == "-" || o.member(f.Manifest) != nil {
			return nil, otherManifest(f.Manifest, s.Manifest)
		}
		o.addText(f.Manifest, s.Manifest)
	}
	return f.wrapped(s.Manifest, o), nil
}

// ReadSnapshot is Format.
func (f JSON) ReadSnapshot(s annals.Snapshot, stored []byte) (annals.Snapshot, error) {
	f = f.named()
	var few [usual]member
	o, manifest, data, err := f.unwrapped(few[:0], stored)
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
func (f JSON) manifest(o *object, id annals.PersistenceID) string {
	if manifest, err := o.text(f.Manifest); err == nil {
		return manifest
	}
	return id.Type()
}

// wrapped returns the bytes to store.
func (f JSON) wrapped(manifest string, o *object) []byte {
	if !f.Wrapped {
		return o.bytes()
	}
	return fmt.Appendf(nil, `{"type":%s,"data":%s}`, appendText(nil, manifest), o.bytes())
}

// unwrapped returns the object in stored with its bytes, and the manifest of a wrapped one. few is the memory of its members, if there are no more:
// a load does this for each event.
func (f JSON) unwrapped(few []member, stored []byte) (o object, manifest string, data []byte, err error) {
	o, err = parse(few, stored)
	if err != nil || !f.Wrapped {
		return o, "", stored, err
	}
	if manifest, err = o.text("type"); err != nil {
		return object{}, "", nil, err
	}
	data = o.member("data")
	if o, err = parse(few, data); err != nil {
		return object{}, "", nil, fmt.Errorf("member %q: %w", "data", err)
	}
	return o, manifest, data, nil
}

// object is a JSON object, and members to be written before its own.
type object struct {
	data    []byte
	members []member
	added   []byte
}

// Few objects have more members than usual, and few get more bytes of members than usualAdded.
const (
	usual      = 8
	usualAdded = 192
)

// parse returns the object in data. Its members are appended to few.
func parse(few []member, data []byte) (object, error) {
	all, ok := members(few, data)
	if !ok {
		return object{}, errors.New("the data is no JSON object")
	}
	return object{data: data, members: all}, nil
}

// written returns the object in a payload that is to be written.
func written(p annals.Payload) (*object, error) {
	if p.SerializerID != jsonSerializer {
		return nil, fmt.Errorf("the serializer id is %d, the tables hold JSON, which is %d", p.SerializerID, jsonSerializer)
	}
	if !utf8.Valid(p.Data) {
		return nil, errors.New("the data is not valid UTF-8")
	}
	o, err := parse(make([]member, 0, usual), p.Data)
	return &o, err
}

// member returns the value of a member; nil when there is none.
func (o *object) member(name string) []byte { return valueOf(o.members, name) }

// add adds a member that o does not have. value is JSON.
func (o *object) add(name, value string) {
	if o.begin(name) {
		o.added = append(append(o.added, value...), ',')
	}
}

// addText is add for a text.
func (o *object) addText(name, value string) {
	if o.begin(name) {
		o.added = append(appendText(o.added, value), ',')
	}
}

// begin begins a member. It returns false for one that is not to be added.
func (o *object) begin(name string) bool {
	if name == "-" || o.member(name) != nil {
		return false
	}
	if o.added == nil {
		o.added = make([]byte, 0, usualAdded)
	}
	o.added = append(appendText(o.added, name), ':')
	return true
}

// bytes returns the data with the added members.
func (o *object) bytes() []byte {
	if len(o.added) == 0 {
		return o.data
	}
	if len(o.members) == 0 {
		o.added = o.added[:len(o.added)-1]
	}
	begin := 0
	for o.data[begin] != '{' { // spaces
		begin++
	}
	all := append(make([]byte, 0, len(o.data)+len(o.added)), '{')
	return append(append(all, o.added...), o.data[begin+1:]...)
}

// text returns a member that is a text.
func (o *object) text(name string) (string, error) {
	s, ok := textOf(o.member(name))
	if name == "-" || !ok {
		return "", fmt.Errorf("the data has no text %q", name)
	}
	return string(s), nil
}

// number returns a member that is the number of an event. It must not pass through a float64, which has 53 bits.
func (o *object) number(name string) (annals.SeqNr, error) {
	n, err := strconv.ParseInt(string(o.member(name)), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("the data has no whole number %q", name)
	}
	return annals.SeqNr(n), nil
}

// isManifest returns an error when o has a member of that name which is not want.
func (o *object) isManifest(name, want string) error {
	if name == "-" || o.member(name) == nil {
		return nil
	}
	if s, err := o.text(name); err != nil || s != want {
		return otherManifest(name, want)
	}
	return nil
}

func otherManifest(name, want string) error {
	return fmt.Errorf("the manifest is %s, and member %q of the data is another", quote.Text(want), name)
}

// isNumber is isManifest for a number.
func (o *object) isNumber(name string, want annals.SeqNr) error {
	if name == "-" || o.member(name) == nil {
		return nil
	}
	if n, err := o.number(name); err != nil || n != want {
		return cmp.Or(err, fmt.Errorf("the number is %d, member %q of the data says %d", want, name, n))
	}
	return nil
}

// isOf returns an error when o has an id in the form of idObject that is not id.
func (o *object) isOf(name string, id annals.PersistenceID) error {
	if name == "-" {
		return nil
	}
	var few [2]member
	of, ok := members(few[:0], o.member(name))
	if !ok {
		return nil
	}
	entityType, typed := textOf(valueOf(of, "type"))
	value, valued := textOf(valueOf(of, "value"))
	if typed && valued && (string(entityType) != id.Type() || string(value) != id.EntityID()) {
		return fmt.Errorf("member %q of the data is the id of another entity", name)
	}
	return nil
}

// idObject is an id as the libraries' payloads have it.
func idObject(id annals.PersistenceID) string {
	b := append(make([]byte, 0, usualAdded), `{"type":`...)
	b = append(appendText(b, id.Type()), `,"value":`...)
	return string(append(appendText(b, id.EntityID()), '}'))
}

// appendText appends a string as JSON.stringify of JavaScript and serde_json of Rust format it. encoding/json escapes more characters.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c >= ' ':
			b = append(b, c)
		case c == '\b':
			b = append(b, `\b`...)
		case c == '\f':
			b = append(b, `\f`...)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		default:
			b = fmt.Appendf(b, `\u%04x`, c)
		}
	}
	return append(b, '"')
}
