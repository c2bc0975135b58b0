package operate

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/annals-go/annals"
)

// The forms of payloads.
func TestShown(t *testing.T) {
	t.Parallel()
	packed := func(v any) []byte {
		data, err := cbor.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, c := range map[string]struct {
		serializer  int32
		data        []byte
		form, value string
	}{
		"json":                    {31, []byte(`{"n": 9007199254740993}`), asJSON, `{"n":9007199254740993}`},
		"json in another format":  {7, []byte(` {"n": 1}`), asHex, `"207b226e223a20317d"`},
		"an object of others":     {7, []byte(`{"n": 1}`), asJSON, `{"n":1}`},
		"broken json":             {31, []byte(`{`), asHex, `"7b"`},
		"json of no text":         {31, []byte("\"\xff\""), asHex, `"22ff22"`},
		"cbor":                    {33, packed(map[string]any{"n": uint64(1) << 63, "list": []any{-1, "<b>", nil}}), asCBOR, `{"list":[-1,"<b>",null],"n":9223372036854775808}`},
		"cbor with keys of ints":  {33, packed(map[int]string{1: "a"}), asCBOR, `"{1: \"a\"}"`},
		"cbor with bytes":         {33, packed([]any{[]byte{1, 2}}), asCBOR, `"[h'0102']"`},
		"broken cbor":             {33, []byte{0xff}, asHex, `"ff"`},
		"what only a codec reads": {9, []byte("x"), asDecoded, `"decoded"`},
	} {
		decode := func(p annals.Payload) (any, error) {
			if p.SerializerID != 9 {
				panic("a codec of the program")
			}
			return "decoded", nil
		}
		if s := (shower{}).show(annals.Payload{SerializerID: c.serializer, Manifest: "m", Data: c.data}, decode); s.Form != c.form || string(s.Value) != c.value {
			t.Errorf("%s: %s %s", name, s.Form, s.Value)
		}
	}
}

// Whatever is stored, it is shown as JSON, and as text that does nothing in a terminal.
func FuzzShown(f *testing.F) {
	f.Add(int32(31), "added", []byte(`{"n":1}`), false)
	f.Add(int32(33), "\x1b[2J", []byte{0xa1, 0x61, 0x6e, 0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, false)
	f.Add(int32(31), "", []byte{0x1f, 0x8b, 8, 0}, true)
	f.Add(int32(33), "", []byte{0xc1, 0xfb, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0}, true)
	f.Fuzz(func(t *testing.T, serializer int32, manifest string, data []byte, whole bool) {
		s := shower{whole: whole}.show(annals.Payload{SerializerID: serializer, Manifest: manifest, Data: data}, nil)
		text, err := json.Marshal(s)
		if err != nil || !json.Valid([]byte(cleanJSON(string(text)))) {
			t.Fatalf("%s, %v", text, err)
		}
		var b bytes.Buffer
		s.print(&b, "  ")
		all := b.String() + named(manifest) + s.text(100) + shell(manifest) + cleanJSON(string(text))
		if i := strings.IndexFunc(all, func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }); i >= 0 {
			t.Errorf("%q", all[i:])
		}
	})
}
