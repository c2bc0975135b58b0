package akkawire

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/annals-go/annals"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	id     = "counter-a8d46579bc2f4caf8c3b8dc2db984227"
	writer = "11111111-2222-3333-4444-555555555555"
)

// The vectors are in docs/formats/j5ik2o.md.
func TestRecordVectors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		record Record
		hex    string
	}{
		"string": {Record{Payload: annals.Payload{SerializerID: 20, Data: []byte("a-1")}, SeqNr: 1, ID: id, Writer: writer},
			"0a0708141203612d3110011a28636f756e7465722d61386434363537396263326634636166386333623864633264623938343232376a2431313131313131312d323232322d333333332d343434342d353535353535353535353535"},
		"cbor": {Record{Payload: annals.Payload{SerializerID: 33, Manifest: "com.example.Counter$ValueAdded", Data: []byte{0xa1, 0x61, 0x6e, 1}}, SeqNr: 65, ID: id, Writer: writer},
			"0a2808211204a1616e011a1e636f6d2e6578616d706c652e436f756e7465722456616c7565416464656410411a28636f756e7465722d61386434363537396263326634636166386333623864633264623938343232376a2431313131313131312d323232322d333333332d343434342d353535353535353535353535"},
	} {
		want, _ := hex.DecodeString(c.hex)
		if got := c.record.Append(nil); !bytes.Equal(got, want) {
			t.Errorf("%s: wrote %x", name, got)
		}
		if got, err := ParseRecord(want); err != nil || !reflect.DeepEqual(got, c.record) {
			t.Errorf("%s: read %+v, %v", name, got, err)
		}
	}
}

func TestRecordFromOtherWriters(t *testing.T) {
	t.Parallel()
	full := Record{Payload: annals.Payload{SerializerID: -5, Data: []byte{}}, SeqNr: annals.MaxSeqNr, ID: "é", Adapter: "a", Writer: writer,
		Metadata: annals.Payload{SerializerID: 4, Manifest: "m", Data: []byte{9}}}
	b := full.Append(nil)
	b = protowire.AppendVarint(protowire.AppendTag(b, fieldTimestamp, protowire.VarintType), protowire.EncodeZigZag(1234))
	b = protowire.AppendVarint(protowire.AppendTag(b, fieldDeleted, protowire.VarintType), 1)
	b = protowire.AppendString(protowire.AppendTag(b, 99, protowire.BytesType), "unknown")
	full.Timestamp, full.Deleted = 1234, true
	if got, err := ParseRecord(b); err != nil || !reflect.DeepEqual(got, full) {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range b {
		if _, err := ParseRecord(b[:i]); err == nil && i < 4 {
			t.Errorf("%d bytes were read as a record", i)
		}
	}
}

func TestSnapshotVectors(t *testing.T) {
	t.Parallel()
	for text, p := range map[string]annals.Payload{
		"0400000014000000732d31": {SerializerID: 20, Data: []byte("s-1")},
		"1d00000021000000636f6d2e6578616d706c652e436f756e746572245374617465a1616e04": {SerializerID: 33, Manifest: "com.example.Counter$State", Data: []byte{0xa1, 0x61, 0x6e, 4}},
	} {
		want, _ := hex.DecodeString(text)
		if got := AppendSnapshot(nil, p); !bytes.Equal(got, want) {
			t.Errorf("wrote %x, want %s", got, text)
		}
		if got, err := ParseSnapshot(want); err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("read %+v, %v", got, err)
		}
		for i := range 8 {
			if _, err := ParseSnapshot(want[:i]); err == nil {
				t.Errorf("%d bytes were read as a snapshot", i)
			}
		}
	}
	if _, err := ParseSnapshot([]byte{255, 255, 255, 255, 1, 0, 0, 0}); err == nil {
		t.Error("a header longer than the snapshot was read")
	}
}
