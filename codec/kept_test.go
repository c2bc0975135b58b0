package codec_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
)

type inner struct {
	City string `json:"city"`
}

type balance struct {
	Cents int64  `json:"cents"`
	Note  string `json:"note,omitempty"`
	inner
	Parts []int `json:"parts,omitzero"`
}

var balances = codec.Keeping[balance]("balance", "seq_nr")

func keptOf(data string) annals.Payload {
	return annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "balance", Data: []byte(data)}
}

// Members that the type does not have come back as they were, also in numbers that a float64 cannot hold; those in except do not.
func TestKeeping(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ stored, written string }{
		{`{"cents":5}`, `{"cents":8,"city":"x"}`},
		{`{}`, `{"cents":8,"city":"x"}`},
		{`{"big":9007199254740993,"seq_nr":4,"cents":5,"deep":{"seq_nr":[1.50,null]},"city":"y","a":"<"}`,
			`{"cents":8,"city":"x","a":"\u003c","big":9007199254740993,"deep":{"seq_nr":[1.50,null]}}`},
		{`{"Cents":5,"note":"kept","":1}`, `{"cents":8,"note":"kept","city":"x","":1}`},
	} {
		k, err := balances.Decode(keptOf(c.stored))
		if err != nil {
			t.Fatal(err)
		}
		k.Value.Cents, k.Value.City = 8, "x"
		p, err := balances.Encode(k)
		if err != nil || string(p.Data) != c.written {
			t.Errorf("%s is written as\n%s, %v, want\n%s", c.stored, p.Data, err, c.written)
		}
		if again, err := balances.Decode(p); err != nil || again.Value.Cents != 8 {
			t.Errorf("%s is read as %+v, %v", p.Data, again, err)
		}
	}
	for _, stored := range []string{`null`, `[]`, `{"cents":"secret"}`, `{`} {
		if _, err := balances.Decode(keptOf(stored)); err == nil && stored != "null" || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", stored, err)
		}
	}
}

// A type that is an object but has no fields: every member is its own, or none is.
func TestKeptOfOtherTypes(t *testing.T) {
	t.Parallel()
	maps := codec.Keeping[map[string]int]("map")
	k, err := maps.Decode(annals.Payload{SerializerID: 31, Manifest: "map", Data: []byte(`{"a":1}`)})
	if err != nil || k.Value["a"] != 1 || len(k.Other) != 0 {
		t.Errorf("a map: %+v, %v", k, err)
	}
	empty := codec.Keeping[struct{}]("empty")
	none, err := empty.Decode(annals.Payload{SerializerID: 31, Manifest: "empty", Data: []byte(`{"b":1,"a":2}`)})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := empty.Encode(none); err != nil || string(p.Data) != `{"a":2,"b":1}` {
		t.Errorf("no fields: %s, %v", p.Data, err)
	}
	numbers := codec.Keeping[int]("number")
	if _, err := numbers.Encode(codec.Kept[int]{Value: 1, Other: map[string]json.RawMessage{"a": []byte(`1`)}}); err == nil {
		t.Error("a number with members was encoded")
	}
}
