package cborcodec_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec/cborcodec"
)

type plain struct {
	Text   string
	Bytes  []byte
	Int    int64
	Uint   uint64
	Float  float64
	Counts map[string]int
	Keys   map[int]bool
	Names  []string
	Born   time.Time
	From   netip.Addr
	Kids   []plain
}

var anyText = rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
	return string(rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "bytes"))
}))

func plains(depth int) *rapid.Generator[plain] {
	return rapid.Custom(func(t *rapid.T) plain {
		p := plain{
			Text: anyText.Draw(t, "text"), Bytes: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes"), Int: rapid.Int64().Draw(t, "int"),
			Uint: rapid.Uint64().Draw(t, "uint"), Float: rapid.Float64().Draw(t, "float"), Keys: rapid.MapOfN(rapid.Int(), rapid.Bool(), 0, 3).Draw(t, "keys"),
			Counts: rapid.MapOfN(anyText, rapid.Int(), 0, 3).Draw(t, "counts"), Names: rapid.SliceOfN(anyText, 0, 3).Draw(t, "names"),
			Born: time.Unix(rapid.Int64Range(-1e9, 1e12).Draw(t, "born"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).UTC(),
		}
		if depth > 0 {
			p.Kids = rapid.SliceOfN(plains(depth-1), 0, 2).Draw(t, "kids")
		}
		return p
	})
}

var same = cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })}

// What Encode accepts, Decode returns.
func TestReadsBackWhatItAccepts(t *testing.T) {
	t.Parallel()
	c := cborcodec.Of[plain]("plain")
	rapid.Check(t, func(t *rapid.T) {
		v := plains(2).Draw(t, "value")
		p, err := c.Encode(v)
		if err != nil {
			return
		}
		if back, err := c.Decode(p); err != nil || !cmp.Equal(v, back, same) {
			t.Fatalf("%x: %v\n%s", p.Data, err, cmp.Diff(v, back, same))
		}
	})
}

type tree struct{ Kids []tree }
type shape interface{ area() int }
type square struct{ Side int }

func (s square) area() int { return s.Side }

func encodes[T any](v T) func() error {
	return func() error {
		c := cborcodec.Of[T]("x")
		p, err := c.Encode(v)
		if err == nil {
			_, err = c.Decode(p)
		}
		return err
	}
}

func TestRefusesWhatItDoesNotReadBack(t *testing.T) {
	t.Parallel()
	deep := func(levels int) (v tree) {
		for range levels {
			v = tree{[]tree{v}}
		}
		return v
	}
	type parent struct{ Child *parent }
	loop, ring := &parent{}, map[string]any{}
	loop.Child, ring["a"] = &parent{loop}, []any{&ring}
	for name, encode := range map[string]func() error{
		"invalid UTF-8": encodes("a\xff"), "an invalid key": encodes(map[string]int{"\xff": 1}), "deep inside": encodes([][]string{{"a"}, {strings.Repeat("b", 70_000), "\xff"}}),
		"in an any": encodes[any](map[string]any{"a": "\xff"}), "1,002 levels": encodes(deep(501)), "an interface": encodes([]shape{square{2}}),
		"year 10000": encodes(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)), "seconds in the zone": encodes([]any{time.Unix(0, 0).In(time.FixedZone("", 53*60+28))}),
		"24 hours": encodes(time.Unix(0, 0).In(time.FixedZone("", 24*60*60))), "a loop of pointers": encodes(loop), "of maps": encodes[any](ring),
		"a field that JSON leaves out": encodes(struct {
			V any `json:"-" cbor:"v"`
		}{time.Unix(0, 0).In(time.FixedZone("", 1))}),
		"seconds in the zone of a key": encodes(map[any]int{time.Unix(0, 0).In(time.FixedZone("", 1)): 1}), "two keys of one time": encodes(map[time.Time]int{time.Unix(0, 0).UTC(): 1, time.Unix(0, 0).In(time.FixedZone("", 0)): 2}),
		"a pointer to the zero time": encodes(new(time.Time)), "the zero time in an any": encodes([]any{time.Time{}.In(time.FixedZone("", 60))}),
		"two keys become one":      encodes(map[any]int{int8(1): 1, int64(1): 2}),
		"a pointer to a nil slice": encodes(&struct{ Tags *[]string }{new([]string)}), "to a nil map": encodes(new(map[string]int)),
		"to a nil pointer": encodes(new(*int)), "to a nil any": encodes(new(any)), "to nil in an any": encodes([]any{new([]int)}),
	} {
		if err := encode(); err == nil || !strings.Contains(err.Error(), "codec: encode") {
			t.Errorf("%s: got %v, want that Encode refuses it", name, err)
		}
	}
	for name, encode := range map[string]func() error{
		"33 levels": encodes(deep(33)), "131,073 elements": encodes(make([]byte, 131_073)), "131,073 numbers": encodes(make([]int, 131_073)),
		"131,073 pairs": encodes(many(131_073)), "bytes of any kind": encodes([]byte("\xff\x61\xff")), "lengths": encodes([]string{strings.Repeat("ä", 12), strings.Repeat("ä", 200), strings.Repeat("ä", 40_000)}),
		"any": encodes[any]([]any{int64(math.MaxInt64), uint64(math.MaxUint64), 1.5, "x", []byte("\xff"), nil, true}), "nil interface": encodes[shape](nil), "the zero time": encodes([]time.Time{{}}),
	} {
		if err := encode(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func many(n int) map[int]int {
	m := map[int]int{}
	for i := range n {
		m[i] = i
	}
	return m
}

func TestReadsWhatJacksonCompressed(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte("\xa1\x64name\x63Ada"))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	c := cborcodec.Of[person]("person")
	if v, err := c.Decode(annals.Payload{SerializerID: 33, Manifest: "person", Data: b.Bytes()}); err != nil || v.Name != "Ada" {
		t.Errorf("got %v, %v", v, err)
	}
	if _, err := c.Decode(annals.Payload{SerializerID: 33, Manifest: "person", Data: b.Bytes()[:20]}); err == nil || !strings.Contains(err.Error(), "gzip") {
		t.Errorf("got %v, want broken gzip", err)
	}
}

// secret is a text that a decoder refuses with an error that repeats it.
type secret struct{}

func (*secret) UnmarshalCBOR(data []byte) error { return errors.New("not a secret: " + string(data)) }

func TestErrorsCarryNoPayload(t *testing.T) {
	t.Parallel()
	type all struct {
		Born time.Time
		Own  secret
		Tiny int8
		Text string
	}
	c := cborcodec.Of[all]("all")
	for name, data := range map[string]string{
		"time": "\xa1\x64Born\x65x4711", "own": "\xa1\x63Own\x65x4711", "overflow": "\xa1\x64Tiny\x19\x12\x67", // 4711
		"type": "\xa1\x64Tiny\x65x4711", "UTF-8": "\xa1\x64Text\x664711x\xff", "short": "\xa1\x64Text\x694711x", "more": "\xa1\x64Text\x6447114711",
	} {
		_, err := c.Decode(annals.Payload{SerializerID: 33, Manifest: "all", Data: []byte(data)})
		if err == nil || !strings.Contains(err.Error(), `"all"`) {
			t.Errorf("%s: got %v, want an error that names the manifest", name, err)
		}
		for err := err; err != nil; err = errors.Unwrap(err) {
			if strings.Contains(err.Error(), "4711") {
				t.Errorf("%s: the error repeats the payload: %v", name, err)
			}
		}
	}
}
