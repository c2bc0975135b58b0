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

// JSON returns a Type that uses encoding/json. Encode refuses a value that Decode would refuse or change: strings that are not valid UTF-8,
// values in an interface whose type is not stored, integers in an any that are no float64, pointers to nil. Decode also reads payloads that
// Jackson on the JVM has compressed with gzip, up to 64 MiB. Fields that encoding/json leaves out, such as those of two embedded structs with one
// name, are not stored, and what a MarshalJSON method of a type has replaced or left out is not found.
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

func toJSON[T any](v T) ([]byte, error) {
	data, err := marshalJSON(&v) // its fields may have a marshaler with a pointer receiver
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

// notUTF8 is the fault of a value with a string that is not valid UTF-8.
const notUTF8 = Fault("a string that is not valid UTF-8")

// jsonFault is err without any part of a value or text. The errors of encoding/json repeat some.
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
		// The field is not named: with encoding/json/v2 its path contains the keys of maps.
		return Fault(fmt.Sprintf("JSON at byte %d does not fit type %v", mismatch.Offset, mismatch.Type))
	case errors.As(err, &marshaler):
		return Fault(fmt.Sprintf("the marshaler of %v failed with a %T", marshaler.Type, marshaler.Err))
	case errors.As(err, &unsupported):
		return Fault(unsupported.Error())
	case errors.As(err, &value):
		// With encoding/json/v2 its text can contain the keys of maps.
		return Fault("a value that JSON does not have, such as NaN, or one that contains itself")
	}
	return err
}

var jsonFormat = readback.Format{Tag: "json", Floats: true, Marshalers: []reflect.Type{
	reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
	reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
}}

// replaced is what encoding/json writes for each byte of a string that is not valid UTF-8. Valid text can contain it too: a
// json.RawMessage, or a string with a backslash and these letters.
var replaced = []byte(`\ufffd`)

// tooDeep reports whether data, which encoding/json has encoded, has more than the 10,000 levels that it decodes.
func tooDeep(data []byte) bool {
	const levels = 10_000
	return len(data) > levels && bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > levels && !json.Valid(data)
}

// sameJSON reports whether two texts have the same tokens, in any order.
func sameJSON(a, b []byte) bool {
	return bytes.Count(a, replaced) == bytes.Count(b, replaced) && slices.Equal(tokens(a), tokens(b))
}

// tokens are the tokens of a valid text, sorted.
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
