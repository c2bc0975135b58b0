package akkawire

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	id     = "counter-a8d46579bc2f4caf8c3b8dc2db984227"
	writer = "11111111-2222-3333-4444-555555555555"
)

// The vectors of Akka 2.6 with the id counter-… are in docs/formats/j5ik2o.md.
func TestRecordVectors(t *testing.T) {
	t.Parallel()
	const order, uuid = "order-1", "00112233-4455-6677-8899-aabbccddeeff"
	text := func(s string) annals.Payload { return annals.Payload{SerializerID: 20, Data: []byte(s)} }
	java := func(s string) annals.Payload {
		return annals.Payload{SerializerID: 1, Data: append([]byte{0xac, 0xed, 0, 5, 't', 0, byte(len(s))}, s...)}
	}
	for name, c := range map[string]struct {
		dialects []Dialect
		record   Record
		hex      string
	}{
		"string": {[]Dialect{Akka26, Akka24}, Record{Payload: text("a-1"), SeqNr: 1, ID: id, Writer: writer},
			"0a0708141203612d3110011a28636f756e7465722d61386434363537396263326634636166386333623864633264623938343232376a2431313131313131312d323232322d333333332d343434342d353535353535353535353535"},
		"cbor": {[]Dialect{Akka26, Akka24}, Record{Payload: annals.Payload{SerializerID: 33, Manifest: "com.example.Counter$ValueAdded", Data: []byte{0xa1, 0x61, 0x6e, 1}}, SeqNr: 65, ID: id, Writer: writer},
			"0a2808211204a1616e011a1e636f6d2e6578616d706c652e436f756e7465722456616c7565416464656410411a28636f756e7465722d61386434363537396263326634636166386333623864633264623938343232376a2431313131313131312d323232322d333333332d343434342d353535353535353535353535"},
		"string of Akka 2.5": {[]Dialect{Akka26, Akka24}, Record{Payload: text("hello"), SeqNr: 42, ID: order, Writer: uuid},
			"0a090814120568656c6c6f102a1a076f726465722d316a2430303131323233332d343435352d363637372d383839392d616162626363646465656666"},
		"java": {[]Dialect{Akka26, Akka24}, Record{Payload: java("hello"), SeqNr: 42, ID: order, Writer: uuid},
			"0a100801120caced000574000568656c6c6f102a1a076f726465722d316a2430303131323233332d343435352d363637372d383839392d616162626363646465656666"},
		"all fields of Akka 2.6": {[]Dialect{Akka26}, Record{Payload: annals.Payload{SerializerID: 2255, Manifest: "OrderPlaced", Data: []byte(`{"n":1}`)}, SeqNr: 300, ID: order, Adapter: "v2", Writer: uuid, Timestamp: 1700000000000, Metadata: text("m")},
			"0a1908cf1112077b226e223a317d1a0b4f72646572506c6163656410ac021a076f726465722d31620276326a2430303131323233332d343435352d363637372d383839392d6161626263636464656566667080a0abfef9627a05081412016d"},
		"a table of version 1.1": {[]Dialect{Akka26, Akka24}, Record{Payload: java("a-0001"), SeqNr: 1, ID: "OldFormatEvents", Writer: "295fa116-fa95-4f5b-af96-80d9861a898d"},
			"0a110801120daced0005740006612d3030303110011a0f4f6c64466f726d61744576656e74736a2432393566613131362d666139352d346635622d616639362d383064393836316138393864"},
		"Akka 2.3": {[]Dialect{Akka23}, Record{Payload: java("a-1"), SeqNr: 1, ID: "p-1"},
			"0a0e0801120aaced0005740003612d3110011a03702d31200030004000"},
		"Akka 2.3, deleted": {[]Dialect{Akka23}, Record{Payload: java("a-1"), SeqNr: 1, ID: "p-1", Deleted: true},
			"0a0e0801120aaced0005740003612d3110011a03702d31200130004000"},
		"Akka 2.3 with a sender": {nil, Record{Payload: java("a-1"), SeqNr: 1, ID: "p-1"},
			"0a0e0801120aaced0005740003612d3110011a03702d312000300040005a1d616b6b613a2f2f746573742f73797374656d2f746573744163746f7231"},
	} {
		want, _ := hex.DecodeString(c.hex)
		for _, d := range c.dialects {
			if got := d.Append(nil, c.record); !bytes.Equal(got, want) {
				t.Errorf("%s: dialect %d wrote %x", name, d, got)
			}
		}
		if got, err := ParseRecord(want); err != nil || !reflect.DeepEqual(got, c.record) {
			t.Errorf("%s: read %+v, %v", name, got, err)
		}
	}
}

func TestRecordFromOtherWriters(t *testing.T) {
	t.Parallel()
	full := Record{Payload: annals.Payload{SerializerID: -5, Data: []byte{}}, SeqNr: annals.MaxSeqNr, ID: "é", Adapter: "a", Writer: writer,
		Timestamp: 1234, Metadata: annals.Payload{SerializerID: 4, Manifest: "m", Data: []byte{9}}}
	b := full.Append(nil)
	b = protowire.AppendVarint(protowire.AppendTag(b, fieldDeleted, protowire.VarintType), 1)
	b = protowire.AppendString(protowire.AppendTag(b, 99, protowire.BytesType), "unknown")
	full.Deleted = true
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
		"0400000014000000732d31":                   {SerializerID: 20, Data: []byte("s-1")},
		"0400000004000000616263":                   {SerializerID: 4, Data: []byte("abc")},
		"09000000cf0800004f726465727b226e223a317d": {SerializerID: 2255, Manifest: "Order", Data: []byte(`{"n":1}`)},
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
	old, _ := hex.DecodeString("08000000aced000573720000" + "616263")
	if p, err := ParseSnapshot(old); err == nil || !strings.Contains(err.Error(), "Akka 2.3") {
		t.Errorf("the header of Akka 2.3: read %+v, %v", p, err)
	}
}
