// Package cborcodec is codec for CBOR (RFC 8949), as Akka's Jackson CBOR reads and writes it. It is a package of its own
// so that programs without CBOR do not link it.
package cborcodec

import (
	"github.com/fxamacker/cbor/v2"

	"github.com/annals-go/annals/codec"
)

// Serializer is the serializer id of CBOR payloads: Akka's Jackson CBOR (akka-serialization-jackson, reference.conf).
const Serializer = 33

// Of is the codec of one type. Fields are named by their cbor tag, else their json tag, else as in Go; map keys are
// sorted, times are RFC 3339 text.
func Of[T any](manifest string, former ...codec.Former[T]) *codec.Type[T] {
	return codec.Of(Serializer, manifest, marshal[T], unmarshal[T], former...)
}

// Was reads CBOR that was stored under a former manifest as an O and lifts it to today's T, whatever T's format is.
func Was[O, T any](manifest string, lift func(O) (T, error)) codec.Former[T] {
	return codec.WasOf(Serializer, manifest, unmarshal[O], lift)
}

var encoding = mustEncoding()

func mustEncoding() cbor.EncMode {
	options := cbor.CoreDetEncOptions()
	options.Time = cbor.TimeRFC3339Nano
	mode, err := options.EncMode()
	if err != nil {
		panic(err) // the options are constants
	}
	return mode
}

func marshal[T any](v T) ([]byte, error) { return encoding.Marshal(v) }

func unmarshal[T any](data []byte) (v T, err error) {
	err = cbor.Unmarshal(data, &v)
	return v, err
}
