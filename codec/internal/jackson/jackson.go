// Package jackson reads what Akka's Jackson serializers put around their payloads.
package jackson

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// MaxInflated bounds an inflated payload: gzip makes up to a thousand bytes of one, and stored bytes may be hostile.
const MaxInflated = 64 << 20

// Inflate is data as it was before the serializer compressed it; what is not compressed stays as it is. The serializer for JSON
// compresses with gzip above 32 KiB unless its configuration says otherwise. Neither JSON nor CBOR begins like gzip. A fault
// says what is wrong.
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
