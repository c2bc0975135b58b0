// Package protocodec is codec for Protocol Buffers. It is a package of its own so that programs without protobuf do not
// link it.
package protocodec

import (
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/annals-go/annals/codec"
)

// Serializer is the serializer id of Protocol Buffers payloads: Akka's ProtobufSerializer (akka-remote, reference.conf).
const Serializer = 2

// Of is the codec of one generated message type, a pointer. Encoding is deterministic for one version of the library. Encode
// refuses what would not be read back. A nil message is read back as an empty one.
func Of[M proto.Message](manifest string, former ...codec.Former[M]) *codec.Type[M] {
	return codec.Of(Serializer, manifest, marshal[M], unmarshal[M], former...)
}

// Was reads a message that was stored under a former manifest and lifts it to today's T, whatever T's format is.
func Was[O proto.Message, T any](manifest string, lift func(O) (T, error)) codec.Former[T] {
	return codec.WasOf(Serializer, manifest, unmarshal[O], lift)
}

// deep is less than a message can have that is deeper than the library reads, 10,000 levels: each has a tag and a length.
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

// fault shows the library's own errors, which name fields. Those that wrap another one, of a message that is not the
// library's, may repeat what is in it.
func fault(err error) error {
	if errors.Unwrap(err) == proto.Error { //nolint:errorlint // not anywhere in the chain
		return codec.Fault(err.Error())
	}
	return err
}
