package codec

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/annals-go/annals"
)

// Member is a type of a Union. *Type implements it.
type Member interface {
	Validate() error
	goType() reflect.Type
	keys() []key
	encodeAny(v any) (annals.Payload, error)
	decodeAny(p annals.Payload) (any, error)
}

func (c *Type[T]) goType() reflect.Type { return reflect.TypeFor[T]() }

func (c *Type[T]) keys() []key {
	keys := []key{c.key}
	for _, f := range c.former {
		keys = append(keys, f.key)
	}
	return keys
}

func (c *Type[T]) encodeAny(v any) (annals.Payload, error) { return c.Encode(v.(T)) }
func (c *Type[T]) decodeAny(p annals.Payload) (any, error) { return c.Decode(p) }

// UnionCodec is the codec of an interface type with several members. Encode finds the member by the Go type of the value, Decode by the
// serializer id and the manifest. It is safe for concurrent use.
type UnionCodec[E any] struct {
	byType map[reflect.Type]Member
	byKey  map[key]Member
	faults []error
}

// Union returns the codec of E, which must be an interface, any included. Validate returns the faults of the members; entity.New and
// aggregate.New call it. So a Union can be a package variable.
func Union[E any](members ...Member) *UnionCodec[E] {
	u := &UnionCodec[E]{byType: map[reflect.Type]Member{}, byKey: map[key]Member{}}
	for _, m := range members {
		u.add(m)
	}
	if t := reflect.TypeFor[E](); t.Kind() != reflect.Interface {
		u.fault("a union of %v, which is no interface", t)
	}
	return u
}

func (u *UnionCodec[E]) add(m Member) {
	union, t := reflect.TypeFor[E](), m.goType()
	switch {
	case union.Kind() == reflect.Interface && !t.Implements(union):
		u.fault("%v is no %v", t, union)
	case t.Kind() == reflect.Interface:
		u.fault("%v is an interface and cannot be a member", t)
	}
	if u.byType[t] != nil {
		u.fault("%v twice", t)
	}
	u.byType[t] = m
	if err := m.Validate(); err != nil {
		u.faults = append(u.faults, err)
	}
	for _, k := range m.keys() {
		if other := u.byKey[k]; other != nil && other != m {
			u.fault("%v for %v and %v", k, other.goType(), t)
		}
		u.byKey[k] = m
	}
}

func (u *UnionCodec[E]) fault(format string, args ...any) {
	u.faults = append(u.faults, fmt.Errorf("codec: "+format, args...))
}

// Validate returns all faults in one error: an E that is no interface, a member that is no E, a Go type that occurs twice, a pair of
// serializer id and manifest that occurs twice.
func (u *UnionCodec[E]) Validate() error { return errors.Join(u.faults...) }

// Encode encodes e by the member that has the Go type of e. It is an error when there is none.
func (u *UnionCodec[E]) Encode(e E) (annals.Payload, error) {
	m, ok := u.byType[reflect.TypeOf(any(e))]
	if !ok {
		return annals.Payload{}, fmt.Errorf("codec: %T is not in the union of %v", e, reflect.TypeFor[E]())
	}
	return m.encodeAny(e)
}

// Decode decodes p by the member that knows its serializer id and manifest. The error is an *UnknownManifestError when there is none.
func (u *UnionCodec[E]) Decode(p annals.Payload) (E, error) {
	var zero E
	m, ok := u.byKey[keyOf(p)]
	if !ok {
		return zero, &UnknownManifestError{p.SerializerID, p.Manifest}
	}
	v, err := m.decodeAny(p)
	if err != nil {
		return zero, err
	}
	e, ok := v.(E)
	if !ok { // only in a union for which Validate returns an error
		return zero, fmt.Errorf("codec: %T is no %v", v, reflect.TypeFor[E]())
	}
	return e, nil
}
