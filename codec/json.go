package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// JSONSerializer is the serializer id of JSON payloads: Akka's Jackson JSON (akka-serialization-jackson, reference.conf).
const JSONSerializer = 31

// JSON is a Type through encoding/json.
func JSON[T any](manifest string, former ...Former[T]) *Type[T] {
	return Of(JSONSerializer, manifest, toJSON[T], fromJSON[T], former...)
}

// Was reads JSON that was stored under a former manifest as an O and lifts it to today's T, whatever T's format is.
func Was[O, T any](manifest string, lift func(O) (T, error)) Former[T] {
	return WasOf(JSONSerializer, manifest, fromJSON[O], lift)
}

func toJSON[T any](v T) ([]byte, error) { return json.Marshal(v) }

func fromJSON[T any](data []byte) (T, error) {
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		var zero T
		return zero, withoutPayload(err)
	}
	return v, nil
}

// withoutPayload says what is wrong with a JSON text without repeating any of it, as the errors of encoding/json do.
func withoutPayload(err error) error {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	var moment *time.ParseError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("broken JSON at byte %d", syntax.Offset)
	case errors.As(err, &mismatch):
		return fmt.Errorf("JSON at byte %d does not fit field %q of type %v", mismatch.Offset, mismatch.Field, mismatch.Type)
	case errors.As(err, &moment):
		return errors.New("a time in the JSON is not in RFC 3339 format")
	}
	return err
}
