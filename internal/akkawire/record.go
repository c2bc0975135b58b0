// Package akkawire reads and writes the formats of Akka's and Pekko's persistence serializers: the record that contains an event, and the
// header of a snapshot.
package akkawire

import (
	"errors"
	"fmt"

	"github.com/annals-go/annals"
	"google.golang.org/protobuf/encoding/protowire"
)

// Record is the message PersistentRepr, in which Akka's serializer 7 stores an event.
type Record struct {
	Payload   annals.Payload
	SeqNr     annals.SeqNr
	ID        annals.PersistenceID
	Deleted   bool   // written by Akka23 only
	Adapter   string // manifest of an event adapter
	Writer    string // UUID of the writer; "" after an update in place, and in records of Akka 2.3
	Timestamp int64  // milliseconds since 1970; 0: none
	Metadata  annals.Payload
}

// BytesSerializer is the id of Akka's serializer for bytes.
const BytesSerializer = 4

// Field numbers of PersistentRepr and of the payload in it.
const (
	fieldPayload      = 1
	fieldSeqNr        = 2
	fieldID           = 3
	fieldDeleted      = 4
	fieldRedeliveries = 6
	fieldConfirmable  = 8
	fieldAdapter      = 12
	fieldWriter       = 13
	fieldTimestamp    = 14
	fieldMetadata     = 15

	fieldSerializer = 1
	fieldData       = 2
	fieldManifest   = 3
)

// The wire types of the fields. A field with a known number and another wire type is an unknown field, as in every protobuf parser.
var (
	recordTypes = map[protowire.Number]protowire.Type{
		fieldPayload: protowire.BytesType, fieldSeqNr: protowire.VarintType, fieldID: protowire.BytesType,
		fieldDeleted: protowire.VarintType, fieldAdapter: protowire.BytesType, fieldWriter: protowire.BytesType,
		fieldTimestamp: protowire.VarintType, fieldMetadata: protowire.BytesType,
	}
	payloadTypes = map[protowire.Number]protowire.Type{
		fieldSerializer: protowire.VarintType, fieldData: protowire.BytesType, fieldManifest: protowire.BytesType,
	}
)

// Append is Akka26.Append.
func (r Record) Append(b []byte) []byte { return Akka26.Append(b, r) }

func appendText(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// appendMessage writes the field of the data also when the data is empty: the JVM refuses a payload without that field.
func appendMessage(b []byte, field protowire.Number, p annals.Payload) []byte {
	var m []byte
	m = protowire.AppendTag(m, fieldSerializer, protowire.VarintType)
	m = protowire.AppendVarint(m, uint64(int64(p.SerializerID)))
	m = protowire.AppendTag(m, fieldData, protowire.BytesType)
	m = protowire.AppendBytes(m, p.Data)
	if p.Manifest != "" {
		m = appendText(m, fieldManifest, p.Manifest)
	}
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
}

// ParseRecord reads a record that Append or the JVM wrote. Fields may be in any order; unknown ones are skipped. The data of the payload
// shares memory with b.
func ParseRecord(b []byte) (r Record, err error) {
	err = fields(b, recordTypes, func(number protowire.Number, v value) (err error) {
		switch number {
		case fieldPayload:
			r.Payload, err = parsePayload(v.bytes)
		case fieldSeqNr:
			r.SeqNr = annals.SeqNr(v.number)
		case fieldID:
			r.ID = annals.PersistenceID(v.bytes)
		case fieldDeleted:
			r.Deleted = v.number != 0
		case fieldAdapter:
			r.Adapter = string(v.bytes)
		case fieldWriter:
			r.Writer = string(v.bytes)
		case fieldTimestamp:
			r.Timestamp = protowire.DecodeZigZag(v.number)
		case fieldMetadata:
			r.Metadata, err = parsePayload(v.bytes)
		}
		return err
	})
	if err == nil && r.Payload.SerializerID == 0 && r.Payload.Data == nil {
		err = errors.New("the record has no payload")
	}
	return r, err
}

func parsePayload(b []byte) (p annals.Payload, err error) {
	p.Data = []byte{}
	err = fields(b, payloadTypes, func(number protowire.Number, v value) error {
		switch number {
		case fieldSerializer:
			p.SerializerID = int32(v.number)
		case fieldData:
			p.Data = v.bytes
		case fieldManifest:
			p.Manifest = string(v.bytes)
		}
		return nil
	})
	return p, err
}

// value is the content of a field: bytes or a number.
type value struct {
	bytes  []byte
	number uint64
}

// fields calls each for those fields of b that are in types.
func fields(b []byte, types map[protowire.Number]protowire.Type, each func(protowire.Number, value) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("a field: %w", protowire.ParseError(n))
		}
		b = b[n:]
		var v value
		switch kind {
		case protowire.VarintType:
			v.number, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return fmt.Errorf("field %d: %w", number, protowire.ParseError(n))
		}
		b = b[n:]
		if want, known := types[number]; !known || kind != want {
			continue
		}
		if err := each(number, v); err != nil {
			return err
		}
	}
	return nil
}
