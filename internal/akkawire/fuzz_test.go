package akkawire

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/annals-go/annals"
)

// A record that is read, written in a dialect and read again is the same, except for the fields that the dialect does not have.
func FuzzParseRecord(f *testing.F) {
	full := Record{Payload: annals.Payload{SerializerID: 33, Manifest: "m", Data: []byte{1}}, SeqNr: 7, ID: id, Adapter: "a", Writer: writer,
		Timestamp: 1234, Metadata: annals.Payload{SerializerID: 4, Data: []byte{}}}
	for _, d := range []Dialect{Akka26, Akka24, Akka23} {
		f.Add(d.Append(nil, full))
	}
	f.Add(Record{Payload: annals.Payload{SerializerID: -1, Data: []byte{}}}.Append(nil))
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRecord(b)
		if err != nil {
			return
		}
		r.Timestamp = max(r.Timestamp, 0)
		if r.Metadata.SerializerID == 0 {
			r.Metadata = annals.Payload{}
		}
		for d, want := range dialects(r) {
			again, err := ParseRecord(d.Append(nil, r))
			if err != nil || !reflect.DeepEqual(again, want) {
				t.Errorf("dialect %d: read %+v, then %+v, %v", d, want, again, err)
			}
		}
	})
}

// dialects returns what each dialect keeps of a record.
func dialects(r Record) map[Dialect]Record {
	kept := map[Dialect]Record{Akka23: {Payload: r.Payload, SeqNr: r.SeqNr, ID: r.ID, Deleted: r.Deleted, Adapter: r.Adapter}}
	r.Deleted = false
	kept[Akka26] = r
	r.Timestamp, r.Metadata = 0, annals.Payload{}
	kept[Akka24] = r
	return kept
}

// A snapshot that is read is written as the same bytes.
func FuzzParseSnapshot(f *testing.F) {
	f.Add(AppendSnapshot(nil, annals.Payload{SerializerID: 33, Manifest: "m", Data: []byte{1}}))
	f.Add([]byte{4, 0, 0, 0, 1, 0, 0, 0})
	f.Add([]byte{255, 255, 255, 255, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParseSnapshot(b)
		if err != nil {
			return
		}
		if again := AppendSnapshot(nil, p); !bytes.Equal(again, b) {
			t.Errorf("read %x, wrote %x", b, again)
		}
	})
}
