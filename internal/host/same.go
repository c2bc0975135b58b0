package host

import (
	"bytes"
	"reflect"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
)

// Unchanged returns a function that reports whether s, which is a map or the like, is still what it was. A state that cannot be encoded is.
func Unchanged[S any](c codec.Codec[S], s S) func() bool {
	c = comparing(c)
	before, err := c.Encode(s)
	return func() bool {
		after, afterErr := c.Encode(s)
		return err != nil || afterErr != nil || samePayload(before, after)
	}
}

// Same reports whether a and b are equal, or are stored as the same bytes: values such as protobuf messages hold more than is stored.
func Same[T any](c codec.Codec[T], a, b T) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	c = comparing(c)
	pa, errA := c.Encode(a)
	pb, errB := c.Encode(b)
	return errA == nil && errB == nil && samePayload(pa, pb)
}

// comparing is the codec in c whose payloads can be compared, or c.
func comparing[T any](c codec.Codec[T]) codec.Codec[T] {
	if w, ok := c.(interface{ Unwrap() codec.Codec[T] }); ok {
		return comparing(w.Unwrap())
	}
	return c
}

func samePayload(a, b annals.Payload) bool {
	return a.SerializerID == b.SerializerID && a.Manifest == b.Manifest && bytes.Equal(a.Data, b.Data)
}
