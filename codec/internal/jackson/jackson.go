// Package jackson decompresses payloads of Akka's Jackson serializers.
package jackson

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// MaxInflated is the largest payload, in bytes, after decompression: gzip can make a thousand bytes of one, and stored bytes may come from
// an attacker.
const MaxInflated = 64 << 20

// Inflate returns data as it was before the serializer compressed it, and data itself when it is not compressed. The serializer for JSON
// compresses payloads above 32 KiB with gzip unless its configuration says otherwise. Neither JSON nor CBOR begins like gzip. When
// data cannot be decompressed, fault is the reason.
func Inflate(data []byte) (inflated []byte, fault string) { return inflate(data, MaxInflated) }

func inflate(data []byte, limit int) (inflated []byte, fault string) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, ""
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err == nil {
		inflated, err = io.ReadAll(io.LimitReader(r, int64(limit)+1))
	}
	switch {
	case err != nil:
		return nil, "broken gzip"
	case len(inflated) > limit:
		return nil, fmt.Sprintf("more than %d MiB when inflated", limit>>20)
	}
	return inflated, ""
}
