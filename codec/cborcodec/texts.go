package cborcodec

import (
	"encoding/binary"
	"unicode/utf8"
)

// validTexts reports whether all text in data, which is well-formed CBOR, is valid UTF-8. The encoder writes any bytes of a string, and the
// decoder refuses text that is not valid.
func validTexts(data []byte) bool {
	const (
		bytesType = 2
		textType  = 3
	)
	for len(data) > 0 { // data is a sequence of heads, at all levels; only after the head of a string other bytes follow
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
