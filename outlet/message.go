package outlet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
)

// Headers of a message, in its Metadata. A header that would be empty is left out.
const (
	headerPersistenceID   = "persistence_id"   // also the ordering key
	headerSequenceNumber  = "sequence_number"  // decimal
	headerTime            = "time"             // when the event was stored: RFC 3339, UTC, with microseconds
	headerTags            = "tags"             // JSON array of strings
	headerSerializerID    = "serializer_id"    // decimal: the format of the payload
	headerManifest        = "manifest"         // the type of the payload and its version
	headerContentType     = "content_type"     // of the payloads of package codec
	headerContentEncoding = "content_encoding" // "gzip" for JSON and CBOR that Jackson has compressed
)

// The serializer ids of cborcodec and protocodec, whose libraries a program need not link.
const (
	cborSerializer  = 33
	protoSerializer = 2
)

// contentTypes are the media types of the formats in package codec, by serializer id.
var contentTypes = map[int32]string{
	codec.JSONSerializer: "application/json",
	cborSerializer:       "application/cbor",
	protoSerializer:      "application/protobuf",
}

// timeFormat always has six digits of a second, so that the header sorts by time.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// newMessage returns the message of e.
func newMessage(ctx context.Context, e annals.Event) *message.Message {
	m := message.NewMessageWithContext(ctx, messageID(e.Offset()), bytes.Clone(e.Data)) // the store keeps e.Data
	set := func(header, value string) {
		if value != "" { // some brokers refuse an empty value
			m.Metadata.Set(header, value)
		}
	}
	set(headerPersistenceID, string(e.ID))
	set(headerSequenceNumber, strconv.FormatInt(int64(e.SeqNr), 10))
	set(headerTime, e.Time.UTC().Format(timeFormat))
	if len(e.Tags) > 0 {
		tags, _ := json.Marshal(e.Tags) // strings do not fail
		set(headerTags, string(tags))
	}
	set(headerSerializerID, strconv.FormatInt(int64(e.SerializerID), 10))
	set(headerManifest, e.Manifest)
	set(headerContentType, contentTypes[e.SerializerID])
	jackson := e.SerializerID == codec.JSONSerializer || e.SerializerID == cborSerializer
	if jackson && bytes.HasPrefix(e.Data, []byte{0x1f, 0x8b}) { // neither JSON nor CBOR begins like gzip
		set(headerContentEncoding, "gzip")
	}
	return m
}

// messageIDs is the name space of the UUIDs of messages.
var messageIDs = uuid.MustParse("9d0fd5b4-5ea8-4d2f-8be7-55c1a2a5c2c9")

// messageID returns the UUID of the message of the event at o. Its time is part of it, because an entity that was forgotten uses its
// numbers again.
func messageID(o annals.Offset) string {
	return uuid.NewSHA1(messageIDs, fmt.Appendf(nil, "%d %d %s", o.SeqNr, o.Time.UnixMicro(), o.ID)).String()
}

// OrderingKey returns the persistence id of m: messages with the same ordering key must keep their order. It is the function that
// Watermill's publishers with partitions or ordering keys want, for example kafka.NewWithPartitioningMarshaler and
// googlecloud.NewOrderingMarshaler. The error is annals.ErrInvalid for a message without the header.
func OrderingKey(_ string, m *message.Message) (string, error) {
	if key := m.Metadata.Get(headerPersistenceID); key != "" {
		return key, nil
	}
	return "", invalid(m, headerPersistenceID, nil)
}

// Event returns the event that m was made of, for a consumer in Go: decode its Payload with the codec of the events. Metadata, Adapter
// and WriteID are not in a message. The error is annals.ErrInvalid when a header is missing or wrong.
func Event(m *message.Message) (annals.Event, error) {
	e := annals.Event{ID: annals.PersistenceID(m.Metadata.Get(headerPersistenceID))}
	e.Data, e.Manifest = m.Payload, m.Metadata.Get(headerManifest)
	number, err := strconv.ParseInt(m.Metadata.Get(headerSequenceNumber), 10, 64)
	if err != nil || number < 1 {
		return annals.Event{}, invalid(m, headerSequenceNumber, err)
	}
	e.SeqNr = annals.SeqNr(number)
	if e.Time, err = time.Parse(timeFormat, m.Metadata.Get(headerTime)); err != nil {
		return annals.Event{}, invalid(m, headerTime, err)
	}
	serializer, err := strconv.ParseInt(m.Metadata.Get(headerSerializerID), 10, 32)
	if err != nil {
		return annals.Event{}, invalid(m, headerSerializerID, err)
	}
	e.SerializerID = int32(serializer)
	if tags := m.Metadata.Get(headerTags); tags != "" {
		if err := json.Unmarshal([]byte(tags), &e.Tags); err != nil {
			return annals.Event{}, invalid(m, headerTags, err)
		}
	}
	if e.ID == "" {
		return annals.Event{}, invalid(m, headerPersistenceID, nil)
	}
	return e, nil
}

func invalid(m *message.Message, header string, err error) error {
	return &annals.Error{Op: fmt.Sprintf("read header %s of message %.256q", header, m.UUID), Kind: annals.ErrInvalid, Err: err}
}
