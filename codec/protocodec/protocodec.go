// Package protocodec is codec for Protocol Buffers. It is a package of its own so that programs without protobuf do not
// link it.
package protocodec

import (
	"google.golang.org/protobuf/proto"

	"github.com/annals-go/annals/codec"
)

// Serializer is the serializer id of Protocol Buffers payloads: Akka's ProtobufSerializer (akka-remote, reference.conf).
const Serializer = 2

// Of is the codec of one generated message type, a pointer. Encoding is deterministic for one version of the library.
func Of[M proto.Message](manifest string, former ...codec.Former[M]) *codec.Type[M] {
	return codec.Of(Serializer, manifest, marshal[M], unmarshal[M], former...)
}

// Was reads a message that was stored under a former manifest and lifts it to today's T, whatever T's format is.
func Was[O proto.Message, T any](manifest string, lift func(O) (T, error)) codec.Former[T] {
	return codec.WasOf(Serializer, manifest, unmarshal[O], lift)
}

func marshal[M proto.Message](m M) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

func unmarshal[M proto.Message](data []byte) (M, error) {
	var none M
	m := none.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(data, m); err != nil {
		return none, err
	}
	return m, nil
}
