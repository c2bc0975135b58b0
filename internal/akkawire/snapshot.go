package akkawire

import (
	"encoding/binary"
	"errors"

	"github.com/annals-go/annals"
)

// AppendSnapshot appends what Akka's serializer 8 stores for a snapshot: the length of the header, the serializer's id, the
// manifest, then the data; numbers little-endian.
func AppendSnapshot(b []byte, p annals.Payload) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(4+len(p.Manifest)))
	b = binary.LittleEndian.AppendUint32(b, uint32(p.SerializerID))
	b = append(b, p.Manifest...)
	return append(b, p.Data...)
}

// ParseSnapshot reads what AppendSnapshot or a JVM wrote. The payload's data is part of b.
func ParseSnapshot(b []byte) (annals.Payload, error) {
	if len(b) < 8 {
		return annals.Payload{}, errors.New("the snapshot is shorter than its header")
	}
	header := int64(binary.LittleEndian.Uint32(b))
	if header < 4 || header > int64(len(b)-4) {
		return annals.Payload{}, errors.New("the snapshot's header does not fit")
	}
	end := 4 + header
	return annals.Payload{SerializerID: int32(binary.LittleEndian.Uint32(b[4:])), Manifest: string(b[8:end]), Data: b[end:]}, nil
}
