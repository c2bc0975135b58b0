package codec

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/annals-go/annals"
)

// Member is a type of a Union. *Type implements it.
type Member interface {
	goType() reflect.Type
	keys() []key
	faults() []error
	encodeAny(v any) (annals.Payload, error)
	decodeAny(p annals.Payload) (any, error)
}

func (c *Type[T]) goType() reflect.Type { return reflect.TypeFor[T]() }

func (c *Type[T]) keys() []key {
	keys := []key{c.key}
	for _, f := range c.former {
		keys = append(keys, f.keys...)
	}
	return keys
}

func (c *Type[T]) encodeAny(v any) (annals.Payload, error) { return c.Encode(v.(T)) }
func (c *Type[T]) decodeAny(p annals.Payload) (any, error) { return c.Decode(p) }

// Union returns the codec of E, which must be an interface, any included. Encode finds the member by the Go type of the value, Decode by the
// serializer id and the manifest. It has a Validate, which returns all faults in one error: an E that is no interface, a member that is nil, is no E or
// has faults of its own, a Go type that occurs twice, a pair of serializer id and manifest that occurs twice. So a Union can be a package variable.
func Union[E any](members ...Member) Codec[E] {
	u := &union[E]{byType: map[reflect.Type]Member{}, byKey: map[key]Member{}}
	for _, m := range members {
		if m == nil || reflect.ValueOf(m).IsZero() {
			u.fault("a member is nil")
			continue
		}
		u.add(m)
	}
	if t := reflect.TypeFor[E](); t.Kind() != reflect.Interface {
		u.fault("a union of %v, which is no interface", t)
	}
	return u
}

type union[E any] struct {
	byType map[reflect.Type]Member
	byKey  map[key]Member
	faults []error
}

func (u *union[E]) add(m Member) {
	e, t := reflect.TypeFor[E](), m.goType()
	switch {
	case e.Kind() == reflect.Interface && !t.Implements(e):
		u.fault("%v is no %v", t, e)
	case t.Kind() == reflect.Interface:
		u.fault("%v is an interface and cannot be a member", t)
	}
	if u.byType[t] != nil {
		u.fault("%v twice", t)
	}
	u.byType[t] = m
	u.faults = append(u.faults, m.faults()...)
	for _, k := range m.keys() {
		if other := u.byKey[k]; other != nil && other != m {
			u.fault("%v for %v and %v", k, other.goType(), t)
		}
		u.byKey[k] = m
	}
}

func (u *union[E]) fault(format string, args ...any) {
	u.faults = append(u.faults, fmt.Errorf("codec: "+format, args...))
}

func (u *union[E]) Validate() error { return errors.Join(u.faults...) }

// Encode encodes e by the member that has the Go type of e. It is an error when there is none.
func (u *union[E]) Encode(e E) (annals.Payload, error) {
	m, ok := u.byType[reflect.TypeOf(any(e))]
	if !ok {
		return annals.Payload{}, fmt.Errorf("codec: %T is not in the union of %v", e, reflect.TypeFor[E]())
	}
	return m.encodeAny(e)
}

// Decode decodes p by the member that knows its serializer id and manifest. The error is an *UnknownManifestError when there is none.
func (u *union[E]) Decode(p annals.Payload) (E, error) {
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
