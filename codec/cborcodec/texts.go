package cborcodec

import (
	"encoding/binary"
	"unicode/utf8"
)

// validTexts reports whether all text in data, which is well-formed, is valid UTF-8. A decoder refuses other text; the encoder
// writes whatever bytes a string has.
func validTexts(data []byte) bool {
	const (
		bytesType = 2
		textType  = 3
	)
	for len(data) > 0 { // heads follow each other, however deep they lie; only strings have something else behind them
		major, n, size := data[0]>>5, uint64(data[0]&0x1f), 1
		switch n {
		case 24:
			n, size = uint64(data[1]), 2
		case 25:
			n, size = uint64(binary.BigEndian.Uint16(data[1:])), 3
		case 26:
			n, size = uint64(binary.BigEndian.Uint32(data[1:])), 5
		case 27:
			n, size = binary.BigEndian.Uint64(data[1:]), 9
		case 31: // chunks follow, each with a head, or elements
			n = 0
		}
		data = data[size:]
		switch major {
		case textType:
			if !utf8.Valid(data[:n]) {
				return false
			}
			data = data[n:]
		case bytesType:
			data = data[n:]
		}
	}
	return true
}
