package sealed

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
)

// Except is like Payloads, but c encodes JSON objects, and all their members are sealed except those that are named as readable. What is
// stored is an object again, under the serializer id of c: the readable members, and "_sealed", a text in Base64, in place of the
// others. So a column of JSON can have it, and other programs can read the readable members. The order of members and the form of numbers
// may be changed on the way. A name that is missing in the list, or misspelled, is sealed; without names, everything is.
//
// The names are exact, and are those of the outermost object: what is inside of a member is readable or sealed as a whole. For a union they
// hold for all of its types. A value that has readable members only is stored as c encodes it, and needs no key. An object that was
// stored with other names is decoded, too.
//
// When the key of the subject is destroyed, c decodes an object that has the readable members only, and Decode returns forgotten(rest), where
// rest is the result: its sealed fields are zero, unless c says otherwise.
//
// The errors are those of Payloads. Encode also is annals.ErrInvalid when c encodes something else than an object, an object that has a name
// twice, or one that has a member "_sealed". The codec keeps no argument that the caller may change later.
func Except[T any](c codec.Codec[T], keys *Keys, subject func(T) string, forgotten func(rest T) T, readable ...string) codec.Codec[T] {
	if c == nil || keys == nil || subject == nil || forgotten == nil {
		return &payloads[T]{inner: c, fault: errors.New("sealed: an argument of Except is nil")}
	}
	readable = slices.Clone(readable)
	seal := func(subject string, p annals.Payload) (annals.Payload, error) {
		return keys.sealMembers(subject, p, readable)
	}
	return &payloads[T]{inner: c, subject: subject, seal: seal, open: keys.openMembers,
		forgotten: func(_ string, rest annals.Payload) (T, error) {
			v, err := c.Decode(rest)
			if err != nil {
				return v, err
			}
			return forgotten(v), nil
		}}
}

const (
	sealedMember = "_sealed"
	// noSerializer stands in the header of sealed members, and never in that of a whole payload: none can take the place of the other.
	noSerializer = 0
)

// sealMembers returns p when subject is "", or no member has to be sealed.
func (k *Keys) sealMembers(subject string, p annals.Payload, readable []string) (annals.Payload, error) {
	if subject == "" && !bytes.Contains(p.Data, []byte(sealedMember)) {
		return p, nil // whatever format it has
	}
	hidden, sound := members(p.Data)
	switch {
	case hidden[sealedMember] != nil:
		return annals.Payload{}, refused("there is a member " + sealedMember)
	case subject == "":
		return p, nil
	case !sound:
		return annals.Payload{}, refused("it is no JSON object, or has a name twice")
	}
	rest := map[string]json.RawMessage{}
	for _, name := range readable {
		if v := hidden[name]; v != nil {
			rest[name] = v
			delete(hidden, name)
		}
	}
	if len(hidden) == 0 {
		return p, nil
	}
	data, err := json.Marshal(hidden)
	if err != nil {
		return annals.Payload{}, err
	}
	sealed, err := k.seal(subject, annals.Payload{SerializerID: noSerializer, Manifest: p.Manifest, Data: data})
	if err != nil {
		return annals.Payload{}, err
	}
	rest[sealedMember], _ = json.Marshal(sealed.Data)
	p.Data, err = json.Marshal(rest)
	return p, err
}

// openMembers returns p with the members that were sealed, and without them when the error is ErrForgotten.
func (k *Keys) openMembers(p annals.Payload) (annals.Payload, string, error) {
	if !bytes.Contains(p.Data, []byte(sealedMember)) {
		return p, "", nil
	}
	all, sound := members(p.Data)
	text := all[sealedMember]
	if text == nil {
		return p, "", nil // the codec judges the rest
	}
	delete(all, sealedMember)
	var data []byte
	if !sound || json.Unmarshal(text, &data) != nil {
		return p, "", unreadable("", "the JSON around "+sealedMember+" was changed")
	}
	hidden, subject, err := k.open(annals.Payload{SerializerID: Serializer, Manifest: p.Manifest, Data: data})
	if err == nil && (hidden.SerializerID != noSerializer || json.Unmarshal(hidden.Data, &all) != nil) {
		err = unreadable(k.id(subject), "a whole payload is in the place of members")
	}
	p.Data, _ = json.Marshal(all)
	return p, subject, err
}

// members are those of a JSON object, with their values as they are written. When data is no such object or has a name twice, it is not
// sound, and the members are those that were found.
func members(data []byte) (all map[string]json.RawMessage, sound bool) {
	all = map[string]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return all, false
	}
	sound = true
	for d.More() {
		t, _ := d.Token()
		name, ok := t.(string)
		var v json.RawMessage
		if !ok || d.Decode(&v) != nil {
			return all, false
		}
		sound = sound && all[name] == nil
		all[name] = v
	}
	_, broken := d.Token() // the bracket
	_, end := d.Token()
	return all, sound && broken == nil && errors.Is(end, io.EOF)
}

func refused(text string) error {
	return &annals.Error{Op: "seal", Kind: annals.ErrInvalid, Err: errors.New("sealed: " + text)}
}
