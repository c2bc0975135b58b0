package akkawire

import "google.golang.org/protobuf/encoding/protowire"

// Dialect is the form of a record that a version of Akka writes. Every dialect is read alike.
type Dialect int

// The dialects.
const (
	Akka26 Dialect = iota // Akka 2.6 and Pekko
	Akka24                // Akka 2.4 and 2.5: no timestamp, no metadata
	Akka23                // Akka 2.3: also no writer; fields that later versions do not have are always there. It has no adapters, and skips that field
)

// Append appends the bytes of r to b. The fields are in ascending order, as the JVM writes them. What the dialect does not have is not
// written: see the constants. A Timestamp below 1 is not written either.
func (d Dialect) Append(b []byte, r Record) []byte {
	b = appendMessage(b, fieldPayload, r.Payload)
	b = appendNumber(b, fieldSeqNr, uint64(r.SeqNr))
	if r.ID != "" {
		b = appendText(b, fieldID, string(r.ID))
	}
	if d == Akka23 {
		b = appendNumber(b, fieldDeleted, protowire.EncodeBool(r.Deleted))
		b = appendNumber(b, fieldRedeliveries, 0)
		b = appendNumber(b, fieldConfirmable, 0)
	}
	if r.Adapter != "" {
		b = appendText(b, fieldAdapter, r.Adapter)
	}
	if r.Writer != "" && d != Akka23 {
		b = appendText(b, fieldWriter, r.Writer)
	}
	if d != Akka26 {
		return b
	}
	if r.Timestamp > 0 {
		b = appendNumber(b, fieldTimestamp, protowire.EncodeZigZag(r.Timestamp))
	}
	if r.Metadata.SerializerID != 0 {
		b = appendMessage(b, fieldMetadata, r.Metadata)
	}
	return b
}

func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}
