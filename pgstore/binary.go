package pgstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

var (
	errWidth = errors.New("a value has another width than its type")
	errTime  = errors.New("a time is infinite, or before or behind those that the server knows")
	errArray = errors.New("an array is not one list of texts")
)

// The decoders of this file read the binary format.

// decodeInt reads an integer or a bigint.
func decodeInt(b []byte) (int64, error) {
	switch len(b) {
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b))), nil
	case 8:
		return int64(binary.BigEndian.Uint64(b)), nil
	}
	return 0, errWidth
}

// decodeInt32 reads an integer, or a bigint that is no larger.
func decodeInt32(b []byte) (int32, error) {
	n, err := decodeInt(b)
	if err == nil && n != int64(int32(n)) {
		err = fmt.Errorf("%d is no 32-bit integer", n)
	}
	return int32(n), err
}

// epoch is where a timestamptz begins to count, in seconds.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

// The server's times: from 4714 BC on, before the year 294277.
const (
	firstTime = -211813488000000000
	endOfTime = 9223371331200000000
)

// decodeTime reads a timestamptz: microseconds since epoch.
func decodeTime(b []byte) (time.Time, error) {
	if len(b) != 8 {
		return time.Time{}, errWidth
	}
	us := int64(binary.BigEndian.Uint64(b))
	if us < firstTime || us >= endOfTime {
		return time.Time{}, errTime
	}
	return time.Unix(epoch+us/1e6, us%1e6*1000).UTC(), nil
}

// decodeTexts reads a text[], nil for NULL and for an empty one.
func decodeTexts(b []byte) ([]string, error) {
	if b == nil {
		return nil, nil
	}
	next := func() (n int32, ok bool) {
		if len(b) < 4 {
			return 0, false
		}
		n, b = int32(binary.BigEndian.Uint32(b)), b[4:]
		return n, true
	}
	var header [5]int32 // dimensions, whether there are NULLs, type, length, lower bound
	for i := range header {
		n, ok := next()
		if !ok {
			return nil, errArray
		}
		if header[i] = n; i == 2 && header[0] == 0 && len(b) == 0 {
			return nil, nil
		}
	}
	if header[0] != 1 || header[3] < 0 || int(header[3]) > len(b)/4 {
		return nil, errArray
	}
	texts := make([]string, header[3])
	for i := range texts {
		n, ok := next()
		if !ok || n < 0 || int(n) > len(b) {
			return nil, errArray
		}
		texts[i], b = string(b[:n]), b[n:]
	}
	if len(b) > 0 {
		return nil, errArray
	}
	return texts, nil
}
