// Package readback finds values that a format encodes and does not decode to the same value.
package readback

import (
	"cmp"
	"math/big"
	"net/netip"
	"reflect"
	"slices"
	"time"
)

// Format says how a format treats Go values.
type Format struct {
	Tag        string         // the name of its tags of fields; a field without one has that of "json"
	Marshalers []reflect.Type // interfaces by which a type can encode itself
	Floats     bool           // an integer in an interface is decoded as a float64
	NilTimes   bool           // the zero time is encoded as nil is
	Levels     int            // the most levels of a Go value, where its encoder does not return for one that contains itself; 0: it does
}

// Check says how to find out that a value of one type will be read back. The zero Check needs nothing: all values of the type are read back.
type Check struct {
	Decode bool // the encoded value must be decoded
	walk   bool // the value must be searched for times, values in interfaces, pointers to nil and loops: see Fault
	format *Format
}

// Of returns the Check for t.
func (f *Format) Of(t reflect.Type) Check {
	c := Check{format: f}
	c.add(t, map[reflect.Type]bool{})
	return c
}

var (
	timeType = reflect.TypeFor[time.Time]()
	// sound are types whose marshalers read back what they write. That of a big.Int has a pointer receiver, so JSON does not call it for the value of a map.
	sound = []reflect.Type{timeType, reflect.TypeFor[*big.Int](), reflect.TypeFor[netip.Addr]()}
)

func (c *Check) add(t reflect.Type, seen map[reflect.Type]bool) {
	if within, ok := seen[t]; ok {
		c.walk = c.walk || within && c.format.Levels > 0
		return
	}
	seen[t] = true
	defer func() { seen[t] = false }()
	if slices.Contains(sound, t) {
		c.walk = c.walk || t == timeType
		return
	}
	if c.format.marshals(t) {
		c.Decode = true // what the marshaler writes is not known
		return
	}
	switch t.Kind() {
	case reflect.Interface:
		c.Decode, c.walk = true, true // the type of the value is not known
	case reflect.Pointer, reflect.Slice, reflect.Array:
		c.walk = c.walk || t.Kind() == reflect.Pointer && nilable(t.Elem())
		c.add(t.Elem(), seen)
	case reflect.Map:
		c.Decode = c.Decode || t.Key() == timeType // two keys can have one text
		c.walk = c.walk || t.Key().Kind() == reflect.Pointer
		c.add(t.Key(), seen)
		c.add(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if c.format.encodes(&f) {
				c.Decode = c.Decode || f.Anonymous && f.Type.Kind() == reflect.Pointer && !f.IsExported() // only its package can set it
				c.add(f.Type, seen)
			}
		}
	default:
	}
}

// encodes reports whether the format encodes the field.
func (f *Format) encodes(field *reflect.StructField) bool {
	return (field.IsExported() || field.Anonymous) && cmp.Or(field.Tag.Get(f.Tag), field.Tag.Get("json")) != "-"
}

func (f *Format) marshals(t reflect.Type) bool {
	// Of the unnamed types only a struct can have a marshaler: that of what is embedded.
	return t.Kind() != reflect.Interface && (t.Name() != "" || t.Kind() == reflect.Struct) && f.implements(t)
}

func (f *Format) implements(t reflect.Type) bool {
	return slices.ContainsFunc(f.Marshalers, reflect.PointerTo(t).Implements)
}

// Fault is the reason why v would not be read back; "" if there is none that the encoder, or decoding, does not find.
func Fault[T any](c Check, v T) string {
	if !c.walk {
		return ""
	}
	return walk(c.format, v)
}

func walk[T any](f *Format, v T) string { // a function of its own, because v is moved to the heap here
	return f.fault(reflect.ValueOf(&v).Elem(), false, 1)
}

func (f *Format) fault(v reflect.Value, within bool, level int) (fault string) {
	if f.Levels > 0 && level > f.Levels {
		return "more levels than are read back, or a value that contains itself"
	}
	switch v.Kind() {
	case reflect.Interface:
		return f.elem(v, true, level)
	case reflect.Pointer:
		return f.elem(v, within, level)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 || f.marshals(v.Type()) {
			return ""
		}
		for i := 0; i < v.Len() && fault == ""; i++ {
			fault = f.fault(v.Index(i), within, level+1)
		}
	case reflect.Map:
		if f.marshals(v.Type()) {
			return ""
		}
		if v.Type().Key().Kind() == reflect.Pointer && v.Len() > 0 {
			return "a map with pointers as keys: no key that is read is one that was written"
		}
		for i := v.MapRange(); fault == "" && i.Next(); {
			if fault = f.fault(i.Value(), within, level+1); fault == "" && v.Type().Key().Kind() != reflect.String { // has nothing to find
				fault = f.fault(i.Key(), false, level+1)
			}
		}
	case reflect.Struct:
		if v.Type() == timeType {
			return timeFault(v)
		}
		if f.implements(v.Type()) {
			return ""
		}
		for i := 0; i < v.NumField() && fault == ""; i++ {
			if field := v.Type().Field(i); f.encodes(&field) {
				fault = f.fault(v.Field(i), within, level+1)
			}
		}
	case reflect.Int, reflect.Int64:
		if n := v.Int(); within && f.Floats && int64(float64(n)) != n && !f.implements(v.Type()) {
			return inexact
		}
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		if n := v.Uint(); within && f.Floats && uint64(float64(n)) != n && !f.implements(v.Type()) {
			return inexact
		}
	default:
	}
	return fault
}

// inexact is a fault that decoding does not find: the text of an integer can be equal to that of a float64 near it.
const inexact = "an integer in an interface would be read back as a float64 with another value"

func (f *Format) elem(v reflect.Value, within bool, level int) string {
	if v.IsNil() {
		return ""
	}
	in := v.Elem()
	switch {
	case f.NilTimes && in.Type() == timeType && in.CanInterface() && in.Interface().(time.Time).IsZero():
		return "the zero time behind a pointer or in an interface would be read back as nil"
	case v.Kind() == reflect.Pointer && nilable(in.Type()) && in.IsNil() && !f.implements(in.Type()):
		return "a pointer to nil would be read back as nil"
	}
	return f.fault(in, within, level+1)
}

func nilable(t reflect.Type) bool {
	return slices.Contains([]reflect.Kind{reflect.Interface, reflect.Map, reflect.Pointer, reflect.Slice}, t.Kind())
}

// timeFault is the reason why RFC 3339 cannot express the time v: a year has four digits, and the offset of a zone has no seconds and is less than a day.
func timeFault(v reflect.Value) string {
	var t time.Time
	switch {
	case v.CanAddr() && v.Addr().CanInterface():
		t = *v.Addr().Interface().(*time.Time)
	case v.CanInterface():
		t = v.Interface().(time.Time)
	}
	if _, offset := t.Zone(); offset%60 != 0 || offset/(24*60*60) != 0 {
		return "a time in a zone whose offset has seconds, or 24 hours or more"
	}
	if y := t.Year(); y < 0 || y > 9999 {
		return "a time outside of the years 0 to 9999"
	}
	return ""
}
