package codec

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/annals-go/annals/codec/internal/jackson"
	"github.com/annals-go/annals/codec/internal/readback"
)

// JSONSerializer is the serializer id of JSON payloads: Akka's Jackson JSON (akka-serialization-jackson, reference.conf).
const JSONSerializer = 31

// JSON is a Type through encoding/json. Encode refuses what would not be read back, or as something else: strings that are not
// valid UTF-8, an interface that says nothing of what is in it, integers in an any that are no float64. Decode also reads what
// Jackson on the JVM has compressed with gzip, up to 64 MiB.
func JSON[T any](manifest string, former ...Former[T]) *Type[T] {
	check := jsonFormat.Of(reflect.TypeFor[T]())
	marshal := func(v T) ([]byte, error) {
		data, err := toJSON(v)
		if err != nil {
			return nil, err
		}
		if fault := readback.Fault(check, v); fault != "" {
			return nil, Fault(fault)
		}
		switch {
		case check.Decode, bytes.Contains(data, replaced):
			return data, readBack(data, toJSON[T], fromJSON[T], sameJSON)
		case tooDeep(data):
			return nil, Fault("deeper than 10,000 levels, which is not read back")
		}
		return data, nil
	}
	return Of(JSONSerializer, manifest, marshal, fromJSON[T], former...)
}

// Was reads JSON that was stored under a former manifest as an O and lifts it to today's T, whatever T's format is.
func Was[O, T any](manifest string, lift func(O) (T, error)) Former[T] {
	return WasOf(JSONSerializer, manifest, fromJSON[O], lift)
}

func toJSON[T any](v T) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, jsonFault(err)
	}
	return data, nil
}

func fromJSON[T any](data []byte) (T, error) {
	var v, zero T
	data, fault := jackson.Inflate(data)
	if fault != "" {
		return zero, Fault(fault)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return zero, jsonFault(err)
	}
	return v, nil
}

// jsonFault says what is wrong without repeating any of a value or text, as the errors of encoding/json do.
func jsonFault(err error) error {
	var (
		syntax      *json.SyntaxError
		mismatch    *json.UnmarshalTypeError
		marshaler   *json.MarshalerError
		unsupported *json.UnsupportedTypeError
		value       *json.UnsupportedValueError
	)
	switch {
	case errors.As(err, &syntax):
		return Fault(fmt.Sprintf("broken JSON at byte %d", syntax.Offset))
	case errors.As(err, &mismatch):
		// Not the field: with encoding/json/v2 the path to it has the keys of maps.
		return Fault(fmt.Sprintf("JSON at byte %d does not fit type %v", mismatch.Offset, mismatch.Type))
	case errors.As(err, &marshaler):
		return Fault(fmt.Sprintf("the marshaler of %v failed with a %T", marshaler.Type, marshaler.Err))
	case errors.As(err, &unsupported):
		return Fault(unsupported.Error())
	case errors.As(err, &value):
		return Fault(value.Error()) // "NaN", or the type of a cycle
	}
	return err
}

var jsonFormat = readback.Format{Floats: true, Marshalers: []reflect.Type{
	reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
	reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
}}

// replaced stands for each byte of a string that is not valid UTF-8. What contains it may still be right: a json.RawMessage, or
// a string with these very letters behind a backslash.
var replaced = []byte(`\ufffd`)

// tooDeep reports whether encoding/json does not decode data, which it has encoded: it stops at 10,000 levels.
func tooDeep(data []byte) bool {
	const levels = 10_000
	return len(data) > levels && bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > levels && !json.Valid(data)
}

// sameJSON reports whether two texts hold the same in any order.
func sameJSON(a, b []byte) bool {
	return bytes.Count(a, replaced) == bytes.Count(b, replaced) && slices.Equal(tokens(a), tokens(b))
}

// tokens are what a valid text is made of, sorted.
func tokens(data []byte) (all []string) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	for {
		t, err := d.Token()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				all = append(all, err.Error())
			}
			slices.Sort(all)
			return all
		}
		all = append(all, fmt.Sprintf("%T %v", t, t))
	}
}
