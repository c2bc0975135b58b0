// Package cborcodec has codecs for CBOR (RFC 8949), in the form that Akka's Jackson CBOR reads and writes. The serializer id is 33. Of is the codec of one type. It is a
// package of its own so that programs without CBOR do not link the library.
package cborcodec

import (
	"encoding"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"

	"github.com/fxamacker/cbor/v2"

	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/codec/internal/jackson"
	"github.com/annals-go/annals/codec/internal/readback"
)

// serializer is the id of Akka's Jackson CBOR (akka-serialization-jackson, reference.conf).
const serializer = 33

// Of is the codec of one type. A field has the name in its cbor tag, else the one in its json tag, else its Go name. Map keys are sorted,
// times are RFC 3339 text. Encode refuses a value that Decode would refuse or change: text that is not valid UTF-8, more than 1,000
// levels, a value in an interface whose type is not stored, a pointer to the zero time or to nil. Fields that the library leaves out, such as those of two
// embedded structs with one name, are not stored. Decode also reads payloads that Jackson on the JVM has compressed with
// gzip, up to 64 MiB.
func Of[T any](manifest string, former ...codec.Former[T]) *codec.Type[T] {
	check := format.Of(reflect.TypeFor[T]())
	encode := func(v T) ([]byte, error) {
		if fault := readback.Fault(check, v); fault != "" {
			return nil, codec.Fault(fault)
		}
		return marshal(v)
	}
	if check.Decode {
		encode = codec.ReadBack(encode, unmarshal[T])
	}
	return codec.Of(serializer, manifest, encode, unmarshal[T], former...)
}

var format = readback.Format{Tag: "cbor", NilTimes: true, Levels: 10_000, Marshalers: []reflect.Type{
	reflect.TypeFor[cbor.Marshaler](), reflect.TypeFor[cbor.Unmarshaler](),
	reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.BinaryUnmarshaler](),
}}

var encodeMode, decodeMode = mustModes()

func mustModes() (cbor.EncMode, cbor.DecMode) {
	options := cbor.CoreDetEncOptions()
	options.Time = cbor.TimeRFC3339Nano
	encMode, err := options.EncMode()
	if err != nil {
		panic(err) // the options are constants
	}
	// The number of elements needs no bound: the library compares it with the length of the data before it allocates memory.
	decMode, err := cbor.DecOptions{MaxNestedLevels: 1000, MaxArrayElements: math.MaxInt32, MaxMapPairs: math.MaxInt32}.DecMode()
	if err != nil {
		panic(err)
	}
	return encMode, decMode
}

func marshal[T any](v T) ([]byte, error) {
	data, err := encodeMode.Marshal(v)
	if err != nil {
		return nil, fault(err)
	}
	if err := decodeMode.Wellformed(data); err != nil {
		return nil, fault(err)
	}
	if !validTexts(data) {
		return nil, codec.Fault("text that is not valid UTF-8")
	}
	return data, nil
}

func unmarshal[T any](data []byte) (v T, err error) {
	data, text := jackson.Inflate(data)
	if text != "" {
		return v, codec.Fault(text)
	}
	if err = decodeMode.Unmarshal(data, &v); err != nil {
		var zero T
		return zero, fault(err)
	}
	return v, nil
}

// fault makes a codec.Fault of those errors of the library that repeat nothing of a payload.
func fault(err error) error {
	switch e := err.(type) { //nolint:errorlint // what wraps one of these has a text of its own
	case *cbor.SyntaxError, *cbor.SemanticError, *cbor.MaxNestedLevelError, *cbor.MaxArrayElementsError, *cbor.MaxMapPairsError,
		*cbor.ExtraneousDataError, *cbor.UnsupportedTypeError:
		return codec.Fault(e.Error())
	case *cbor.UnmarshalTypeError:
		return codec.Fault(fmt.Sprintf("CBOR %s does not fit field %q of type %s", e.CBORType, e.StructFieldName, e.GoType))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return codec.Fault("broken CBOR: it ends too early")
	}
	return err
}
