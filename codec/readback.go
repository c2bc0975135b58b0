package codec

import (
	"bytes"
	"slices"
)

// ReadBack returns a marshal for Of that refuses values which unmarshal does not read back. It encodes a value, decodes the result, encodes
// that again, and compares the bytes of both encodings. Bytes in another order count as equal, because sets may be written in any order. It is nil
// when one of them is.
//
// JSON, cborcodec and protocodec do the same, but only for the types and values that need it.
func ReadBack[T any](marshal func(T) ([]byte, error), unmarshal func([]byte) (T, error)) func(T) ([]byte, error) {
	if marshal == nil || unmarshal == nil {
		return nil
	}
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

// readBack returns an error when data, which marshal made, cannot be decoded, or is decoded as a value with another encoding.
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
