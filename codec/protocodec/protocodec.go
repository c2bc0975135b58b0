// Package protocodec has codecs for Protocol Buffers: Of for a generated message, Map for a type of your own that two functions turn into
// a message and back. The serializer id is 2. It is a package of its own so that programs without Protocol Buffers do not link the library.
package protocodec

import (
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/annals-go/annals/codec"
)

// serializer is the id of Akka's ProtobufSerializer (akka-remote, reference.conf).
const serializer = 2

// Of is the codec of one generated message type, a pointer. Encoding is deterministic for one version of the library. Encode refuses
// a message that Decode would refuse. A nil message is read back as an empty one.
func Of[M proto.Message](manifest string, former ...codec.Former[M]) *codec.Type[M] {
	return codec.Of(serializer, manifest, marshal[M], unmarshal[M], former...)
}

// Map is the codec of a T that is stored as a message M: toMessage and fromMessage turn one into the other, so that domain code needs no
// generated types. Both must be safe for concurrent use. Their errors are shown if they are a codec.Fault.
//
// Encode checks that its result can be read back: it decodes the bytes, maps them to a T and back, and refuses a value whose bytes differ
// then. So a fromMessage that loses or changes a field of the message is found when the first such value is written. A field of T
// that toMessage leaves out is not stored, and Encode cannot find this out: test it with entitytest, or compare values in a test.
func Map[T any, M proto.Message](manifest string, toMessage func(T) (M, error), fromMessage func(M) (T, error), former ...codec.Former[T]) *codec.Type[T] {
	if toMessage == nil || fromMessage == nil {
		return codec.Of[T](serializer, manifest, nil, nil, former...)
	}
	encode := func(v T) ([]byte, error) {
		m, err := toMessage(v)
		if err != nil {
			return nil, err
		}
		return marshal(m)
	}
	decode := func(data []byte) (T, error) {
		m, err := unmarshal[M](data)
		if err != nil {
			var zero T
			return zero, err
		}
		return fromMessage(m)
	}
	return codec.Of(serializer, manifest, codec.ReadBack(encode, decode), decode, former...)
}

// deep is the least size, in bytes, of a message with more levels than the library reads, which are 10,000: each level has a tag and a length.
const deep = 20_000

func marshal[M proto.Message](m M) ([]byte, error) {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fault(err)
	}
	if len(data) >= deep {
		if _, err := unmarshal[M](data); err != nil {
			return nil, err
		}
	}
	return data, nil
}

func unmarshal[M proto.Message](data []byte) (M, error) {
	var none M
	m := none.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(data, m); err != nil {
		return none, fault(err)
	}
	return m, nil
}

// fault makes the library's own errors visible: they name fields. An error that wraps another one comes from a message implementation that
// is not the library's, and may repeat what is in the message.
func fault(err error) error {
	if errors.Unwrap(err) == proto.Error { //nolint:errorlint // not anywhere in the chain
		return codec.Fault(err.Error())
	}
	return err
}
