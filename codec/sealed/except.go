package sealed

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
)

// Except is like Payloads, but c encodes JSON objects, and all their members are sealed except those that are named as readable. What is
// stored is an object again, under the serializer id of c: the readable members, and "_sealed", a text in Base64, in place of the
// others. So a column of JSON can have it, and other programs can read the readable members. A name that is missing in the list, or misspelled,
// is sealed; without names, everything is. The order of members and the form of numbers may be changed on the way, and members may be
// added. One that has the name of a sealed member, or a name that differs from it in case only, does not take its place.
//
// The names are exact, and are those of the outermost object: what is inside of a member is readable or sealed as a whole. For a union they
// hold for all of its types. A value that has readable members only is stored as c encodes it, and needs no key. An object that was
// stored with other names is decoded, too.
//
// When the key of the subject is destroyed, c decodes an object that has only the members that are named now, and Decode returns forgotten(rest),
// where rest is the result: its other fields are zero, unless c says otherwise, also where others have added members with such names. So name
// what was readable before as well, if c reads it. The functions of codec.Was in c get such values, too: what they refuse cannot be decoded any more.
//
// The errors are those of Payloads. Encode also is annals.ErrInvalid when c encodes something else than an object, or an object that has a name
// twice, a member "_sealed", or a readable and a sealed member whose names differ in case only. The codec keeps no argument that the caller
// may change later.
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
			all, _ := members(rest.Data)
			rest.Data = object(slices.DeleteFunc(all, func(m member) bool { return !slices.Contains(readable, m.name) }))
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
	if subject == "" && !bytes.Contains(p.Data, []byte(sealedMember)) && !bytes.Contains(p.Data, []byte(`\u`)) {
		return p, nil // whatever format it has
	}
	all, sound := members(p.Data)
	switch {
	case slices.ContainsFunc(all, member.sealed):
		return annals.Payload{}, refused("there is a member " + sealedMember)
	case subject == "":
		return p, nil
	case !sound:
		return annals.Payload{}, refused("it is no JSON object, or has a name twice")
	}
	var rest, hidden []member
	for _, m := range all {
		if slices.Contains(readable, m.name) {
			rest = append(rest, m)
		} else {
			hidden = append(hidden, m)
		}
	}
	switch {
	case len(hidden) == 0:
		return p, nil
	case len(without(rest, hidden)) < len(rest):
		return annals.Payload{}, refused("a readable member and a sealed one have names that differ in case only")
	}
	sealed, err := k.seal(subject, annals.Payload{SerializerID: noSerializer, Manifest: p.Manifest, Data: object(hidden)})
	if err != nil {
		return annals.Payload{}, err
	}
	text, err := json.Marshal(sealed.Data)
	p.Data = object(append(rest, member{sealedMember, text}))
	return p, err
}

// openMembers returns p with the members that were sealed, and without them when the error is ErrForgotten. A readable member that others
// have added does not take the place of a sealed one.
func (k *Keys) openMembers(p annals.Payload) (annals.Payload, string, error) {
	if !bytes.Contains(p.Data, []byte(sealedMember)) {
		return p, "", nil
	}
	all, sound := members(p.Data)
	at := slices.IndexFunc(all, member.sealed)
	if at < 0 {
		return p, "", nil // the codec judges the rest
	}
	var data []byte
	if !sound || json.Unmarshal(all[at].value, &data) != nil {
		return p, "", unreadable("", "the JSON around "+sealedMember+" was changed")
	}
	rest := slices.Delete(all, at, at+1)
	inner, subject, err := k.open(annals.Payload{SerializerID: Serializer, Manifest: p.Manifest, Data: data})
	if err == nil {
		hidden, sound := members(inner.Data)
		if inner.SerializerID != noSerializer || !sound {
			return p, subject, unreadable(k.id(subject), "a whole payload is in the place of members")
		}
		rest = append(without(rest, hidden), hidden...)
	}
	p.Data = object(rest)
	return p, subject, err
}

// member is one of a JSON object. Their order is kept, because encoding/json takes the last one of those that it reads into the same field.
type member struct {
	name  string
	value json.RawMessage // as it is written
}

func (m member) sealed() bool { return m.name == sealedMember }

// members are those of a JSON object. When data is no such object or has a name twice, it is not sound, and the members are those that
// were found.
func members(data []byte) (all []member, sound bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	names := map[string]bool{}
	for d.More() {
		t, _ := d.Token()
		name, ok := t.(string)
		var v json.RawMessage
		if !ok || d.Decode(&v) != nil {
			return all, false
		}
		all, names[name] = append(all, member{name, v}), true
	}
	_, broken := d.Token() // the bracket
	_, end := d.Token()
	return all, len(names) == len(all) && broken == nil && errors.Is(end, io.EOF)
}

// object is the JSON object that has these members.
func object(all []member) []byte {
	data := []byte{'{'}
	for i, m := range all {
		if i > 0 {
			data = append(data, ',')
		}
		name, _ := json.Marshal(m.name)
		data = append(append(append(data, name...), ':'), m.value...)
	}
	return append(data, '}')
}

// without returns the members of rest, except those that encoding/json reads into the same fields as some of hidden, as it ignores case.
func without(rest, hidden []member) (others []member) {
	names := map[string]bool{}
	for _, m := range hidden {
		names[folded(m.name)] = true
	}
	for _, m := range rest {
		if !names[folded(m.name)] {
			others = append(others, m)
		}
	}
	return others
}

// folded is the same for names that differ in case only, as strings.EqualFold and encoding/json define it.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		for next := unicode.SimpleFold(r); ; r, next = next, unicode.SimpleFold(next) {
			if next <= r {
				return next // the smallest one
			}
		}
	}, name)
}

func refused(text string) error {
	return &annals.Error{Op: "seal", Kind: annals.ErrInvalid, Err: errors.New("sealed: " + text)}
}
