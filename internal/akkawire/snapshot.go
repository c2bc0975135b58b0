package akkawire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/annals-go/annals"
)

// AppendSnapshot appends a snapshot in the format of Akka's serializer 8: the length of the header, the serializer id, the manifest, the data.
// Numbers are little-endian.
func AppendSnapshot(b []byte, p annals.Payload) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(4+len(p.Manifest)))
	b = binary.LittleEndian.AppendUint32(b, uint32(p.SerializerID))
	b = append(b, p.Manifest...)
	return append(b, p.Data...)
}

// SnapshotFault says why Akka does not read a snapshot in this format: it takes each serializer id that has all bits of this one for the header
// of Akka 2.3. Events, and snapshots in attributes of their own, may have such ids.
func SnapshotFault(p annals.Payload) error {
	const java = 0xedac
	if p.SerializerID&java != java {
		return nil
	}
	return fmt.Errorf("the serializer id is %d, and Akka takes a snapshot with an id that has the bits 0x%x for one of Akka 2.3", p.SerializerID, java)
}

// javaStream begins every object of Java serialization.
const javaStream = "\xac\xed\x00\x05"

// ParseSnapshot reads a snapshot that AppendSnapshot or the JVM wrote. The data of the payload shares memory with b. A snapshot of Akka 2.3 is
// an error: Java serialization made its header.
func ParseSnapshot(b []byte) (annals.Payload, error) {
	if len(b) < 8 {
		return annals.Payload{}, errors.New("the snapshot is shorter than its header")
	}
	header := int64(binary.LittleEndian.Uint32(b))
	if header < 4 || header > int64(len(b)-4) {
		return annals.Payload{}, errors.New("the snapshot's header does not fit")
	}
	if string(b[4:8]) == javaStream {
		return annals.Payload{}, errors.New("the snapshot is of Akka 2.3, whose header is in Java serialization")
	}
	end := 4 + header
	return annals.Payload{SerializerID: int32(binary.LittleEndian.Uint32(b[4:])), Manifest: string(b[8:end]), Data: b[end:]}, nil
}
