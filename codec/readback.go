package codec

import (
	"bytes"
	"slices"
)

// ReadBack is marshal for Of, refusing what unmarshal does not read back: it decodes what it has encoded and encodes that once
// more. Bytes in another order are no difference, for sets may be written in any.
//
// JSON, cborcodec and protocodec do so, but only for the types and values that need it.
func ReadBack[T any](marshal func(T) ([]byte, error), unmarshal func([]byte) (T, error)) func(T) ([]byte, error) {
	return func(v T) ([]byte, error) {
		data, err := marshal(v)
		if err != nil {
			return nil, err
		}
		return data, readBack(data, marshal, unmarshal, func(a, b []byte) bool {
			a, b = slices.Clone(a), slices.Clone(b)
			slices.Sort(a)
			slices.Sort(b)
			return bytes.Equal(a, b)
		})
	}
}

// readBack says what is wrong with data, which marshal made: it is not read back, or as something that is encoded otherwise.
func readBack[T any](data []byte, marshal func(T) ([]byte, error), unmarshal func([]byte) (T, error), same func(a, b []byte) bool) error {
	back, err := unmarshal(data)
	if err != nil {
		return Fault("it would not be read back: " + safeText(err))
	}
	again, err := marshal(back)
	if err != nil {
		return Fault("it would not be read back: " + safeText(err))
	}
	if !bytes.Equal(data, again) && !same(data, again) {
		return Fault("it would be read back as something else")
	}
	return nil
}
