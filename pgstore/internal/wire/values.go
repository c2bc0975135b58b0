package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Errors of values that are not of the type that their reader expects.
var (
	ErrWidth = errors.New("a value has another width than its type")
	ErrTime  = errors.New("a time is infinite, or out of the server's range")
	ErrArray = errors.New("an array is not a one-dimensional list of texts without NULL")
)

// Int reads an integer or a bigint in the binary format.
func Int(b []byte) (int64, error) {
	switch len(b) {
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b))), nil
	case 8:
		return int64(binary.BigEndian.Uint64(b)), nil
	}
	return 0, ErrWidth
}

// Int32 reads an integer, or a bigint whose value fits into 32 bits, in the binary format.
func Int32(b []byte) (int32, error) {
	n, err := Int(b)
	if err == nil && n != int64(int32(n)) {
		err = fmt.Errorf("%d is not a 32-bit integer", n)
	}
	return int32(n), err
}

// epoch is the zero of a timestamptz, in seconds of Unix time.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

// The server's range of times, in microseconds: from 4714 BC to before the year 294277.
const (
	firstTime = -211813488000000000
	endOfTime = 9223371331200000000
)

// Time reads a timestamptz in the binary format, in UTC.
func Time(b []byte) (time.Time, error) {
	if len(b) != 8 {
		return time.Time{}, ErrWidth
	}
	us := int64(binary.BigEndian.Uint64(b))
	if us < firstTime || us >= endOfTime {
		return time.Time{}, ErrTime
	}
	return time.Unix(epoch+us/1e6, us%1e6*1000).UTC(), nil
}

// Texts reads a text[] in the binary format. It returns nil for NULL and for an empty array.
func Texts(b []byte) ([]string, error) {
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
			return nil, ErrArray
		}
		if header[i] = n; i == 2 && header[0] == 0 && len(b) == 0 {
			return nil, nil
		}
	}
	if header[0] != 1 || header[3] < 0 || int(header[3]) > len(b)/4 {
		return nil, ErrArray
	}
	texts := make([]string, header[3])
	for i := range texts {
		n, ok := next()
		if !ok || n < 0 || int(n) > len(b) {
			return nil, ErrArray
		}
		texts[i], b = string(b[:n]), b[n:]
	}
	if len(b) > 0 {
		return nil, ErrArray
	}
	return texts, nil
}

// TextArray returns texts in the text format of a text[], nil without any. A statement for many rows passes the tags of each row this
// way, because the arrays within an array must have the same length.
func TextArray(texts []string) *string {
	if len(texts) == 0 {
		return nil
	}
	var b []byte
	for i, text := range texts {
		b = append(b, "{,"[min(i, 1)], '"')
		for _, c := range []byte(text) {
			if c == '"' || c == '\\' {
				b = append(b, '\\')
			}
			b = append(b, c)
		}
		b = append(b, '"')
	}
	s := string(append(b, '}'))
	return &s
}
