package cborcodec_test

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/codec/cborcodec"
)

type person struct {
	Name string `json:"name"`
	Born time.Time
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	c := cborcodec.Of[person]("person")
	born := time.Date(1815, 12, 10, 0, 0, 0, 1000, time.UTC)
	p, err := c.Encode(person{"Ada", born})
	if err != nil || p.SerializerID != 33 || p.Manifest != "person" {
		t.Fatalf("got %v, %v", p, err)
	}
	// {"Born": "1815-12-10T00:00:00.000001Z", "name": "Ada"}: a map of two, text throughout, as Jackson reads it.
	if want := "a264426f726e781b313831352d31322d31305430303a30303a30302e3030303030315a646e616d6563416461"; hex.EncodeToString(p.Data) != want {
		t.Errorf("got %x, want %s", p.Data, want)
	}
	if v, err := c.Decode(p); err != nil || v.Name != "Ada" || !v.Born.Equal(born) {
		t.Errorf("got %v, %v", v, err)
	}
	p.Data = p.Data[:5]
	if v, err := c.Decode(p); err == nil || v != (person{}) {
		t.Errorf("half a map was read as %v", v)
	}
}

func TestFormerVersions(t *testing.T) {
	t.Parallel()
	type v1 struct{ Name string }
	lift := func(v v1) (person, error) { return person{Name: v.Name}, nil }
	c := cborcodec.Of("person#2", codec.Was(codec.JSON[v1]("person"), lift), codec.Was(cborcodec.Of[v1]("person"), lift))
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, p := range []annals.Payload{
		{SerializerID: 31, Manifest: "person", Data: []byte(`{"Name":"Ada"}`)},
		{SerializerID: 33, Manifest: "person", Data: []byte("\xa1\x64Name\x63Ada")},
		{SerializerID: 33, Manifest: "person#2", Data: []byte("\xa1\x64name\x63Ada")},
	} {
		if v, err := c.Decode(p); err != nil || v.Name != "Ada" {
			t.Errorf("serializer %d, %s: got %v, %v", p.SerializerID, p.Manifest, v, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	c := cborcodec.Of[person]("person")
	f.Add([]byte("\xa1\x64name\x63Ada"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if v, err := c.Decode(annals.Payload{SerializerID: 33, Manifest: "person", Data: data}); err != nil && v != (person{}) {
			t.Errorf("an error and a value: %v, %v", v, err)
		}
	})
}
