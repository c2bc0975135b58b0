package codec

import (
	"encoding/json"
	"maps"
	"strings"
)

// Kept is a T and the members of its JSON object that T does not have. It is for objects that other programs write too: a program that
// reads such an object and writes it again keeps what it does not know of. The JSON of a T must be an object, and a T has no UnmarshalJSON: it
// would be taken to have all members. Of an object inside, members are kept if its field in T is a Kept too. See Keeping.
type Kept[T any] struct {
	Value T
	Other map[string]json.RawMessage // by name; nil: none. A member that Value writes too is not written twice
}

// Keeping returns a JSON codec of Kept[T]. The members in except are dropped when an object is read: those that say when an object was
// written, and so must not be written again, such as its number and its time.
func Keeping[T any](manifest string, except ...string) *Type[Kept[T]] {
	c := JSON[Kept[T]](manifest)
	all := c.unmarshal
	c.unmarshal = func(data []byte) (Kept[T], error) {
		k, err := all(data)
		for _, name := range except {
			delete(k.Other, name)
		}
		return k, err
	}
	return c
}

// UnmarshalJSON implements json.Unmarshaler.
func (k *Kept[T]) UnmarshalJSON(data []byte) error {
	var read Kept[T]
	if err := json.Unmarshal(data, &read.Value); err != nil {
		return err
	}
	if err := json.Unmarshal(data, &read.Other); err != nil {
		return err
	}
	maps.DeleteFunc(read.Other, func(name string, _ json.RawMessage) bool { return has[T](name) })
	*k = read
	return nil
}

// MarshalJSON implements json.Marshaler. The members of Value come first.
func (k Kept[T]) MarshalJSON() ([]byte, error) {
	data, err := marshalJSON(&k.Value)
	if err != nil || len(k.Other) == 0 {
		return data, err
	}
	var own map[string]json.RawMessage
	if err := json.Unmarshal(data, &own); err != nil {
		return nil, err
	}
	other := maps.Clone(k.Other)
	maps.DeleteFunc(other, func(name string, _ json.RawMessage) bool { return own[name] != nil })
	if len(other) == 0 {
		return data, nil
	}
	more, err := marshalJSON(other)
	if err != nil || len(own) == 0 {
		return more, err
	}
	return append(append(data[:len(data)-1], ','), more[1:]...), nil
}

// has reports whether a T has a member of that name.
func has[T any](name string) bool {
	text, err := json.Marshal(map[string]any{name: nil})
	if err != nil {
		return false
	}
	var v T
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	err = d.Decode(&v)
	return err == nil || !strings.Contains(err.Error(), "unknown field")
}
