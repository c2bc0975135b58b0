package jsonobject_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"testing"

	"github.com/annals-go/annals/dynamostore/internal/jsonobject"
)

// The members of an object are those that encoding/json finds.
func TestMembers(t *testing.T) {
	t.Parallel()
	for _, data := range samples {
		wantMembers(t, []byte(data))
	}
}

var samples = []string{`{}`, ` { } `, `{"a":1}`, "{\t\"a\" :\r\n1.5e3 , \"b\":null}", `{"a":{"b":[1,{"c":"}"}]},"d":[]}`, `{"\u0061":"\"","a\\":"\\"}`, `{"a":1,"a":{"b":2}}`,
	"{\"\xff\":\"\xff\"}", `{"":""}`, `{"a":[ ] ,"b":[true, {"c" : -0.1}]}`, ``, ` `, `null`, `[]`, `"{}"`, `{"a"}`, `{"a":1,}`, `{"a":1} x`, `{"a":tru}`, `{"a":1`, `{,}`, `{"a",1}`}

func wantMembers(t *testing.T, data []byte) {
	t.Helper()
	var want map[string]json.RawMessage
	err := json.Unmarshal(data, &want)
	o, ok := jsonobject.Parse(nil, data)
	got := map[string]json.RawMessage{}
	for name := range want {
		got[name] = o.Member(name)
		_, inner := o.Object(nil, name)
		if isObject := len(want[name]) > 0 && want[name][0] == '{'; inner != isObject {
			t.Errorf("member %q of %q is an object: %v", name, data, inner)
		}
		var text any
		_ = json.Unmarshal(want[name], &text)
		wanted, isText := text.(string)
		if s, ok := o.Text(name); ok != isText || string(s) != wanted {
			t.Errorf("member %q of %q is the text %q, %v", name, data, s, ok)
		}
	}
	if ok != (err == nil && want != nil) || ok && !maps.EqualFunc(got, want, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		t.Errorf("members of %q: got %q, %v, want %q, %v", data, got, ok, want, err)
	}
	if !ok {
		return
	}
	if o.Member("no such member") != nil || !bytes.Equal(o.Bytes(), data) {
		t.Errorf("%q is %q", data, o.Bytes())
	}
	o.Add("added \x01", `[1]`)
	var again map[string]json.RawMessage
	if err := json.Unmarshal(o.Bytes(), &again); err != nil || want["added \x01"] == nil && (len(again) != len(want)+1 || string(again["added \x01"]) != "[1]") {
		t.Errorf("%q with a member is %q, %v", data, o.Bytes(), err)
	}
}

func FuzzMembers(f *testing.F) {
	for _, data := range samples {
		f.Add([]byte(data))
	}
	f.Fuzz(wantMembers)
}

func TestQuote(t *testing.T) {
	t.Parallel()
	text := "a<>&\"\\\b\f\n\r\t\x01\x7f\u2028é😀"
	if got, want := jsonobject.Quote(text), `"a<>&\"\\\b\f\n\r\t\u0001`+"\x7f\u2028é😀\""; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
