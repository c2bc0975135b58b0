package akkawire

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/annals-go/annals"
)

// A record that is read, written and read again is the same, except for the fields that are never written.
func FuzzParseRecord(f *testing.F) {
	full := Record{Payload: annals.Payload{SerializerID: 33, Manifest: "m", Data: []byte{1}}, SeqNr: 7, ID: id, Adapter: "a", Writer: writer,
		Metadata: annals.Payload{SerializerID: 4, Data: []byte{}}}
	f.Add(full.Append(nil))
	f.Add(Record{Payload: annals.Payload{SerializerID: -1, Data: []byte{}}}.Append(nil))
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRecord(b)
		if err != nil {
			return
		}
		r.Deleted, r.Timestamp = false, 0
		if r.Metadata.SerializerID == 0 {
			r.Metadata = annals.Payload{}
		}
		again, err := ParseRecord(r.Append(nil))
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("read %+v, then %+v, %v", r, again, err)
		}
	})
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
