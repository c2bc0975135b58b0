package codec_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
)

type plain struct {
	Text   string
	Bytes  []byte
	Int    int64
	Uint   uint64
	Float  float64
	Counts map[string]int
	Names  []string
	Born   time.Time
	Limit  *big.Int
	From   netip.Addr
	Kids   []plain
}

// anyText is a text, in most cases valid UTF-8.
var anyText = rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
	return string(rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "bytes"))
}), rapid.Just(`\ufffd`), rapid.Just("\uFFFD"))

func plains(depth int) *rapid.Generator[plain] {
	return rapid.Custom(func(t *rapid.T) plain {
		p := plain{
			Text: anyText.Draw(t, "text"), Bytes: rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"), Int: rapid.Int64().Draw(t, "int"),
			Uint: rapid.Uint64().Draw(t, "uint"), Float: rapid.Float64().Draw(t, "float"),
			Counts: rapid.MapOfN(anyText, rapid.Int(), 0, 3).Draw(t, "counts"), Names: rapid.SliceOfN(anyText, 0, 3).Draw(t, "names"),
			Born: time.Unix(rapid.Int64Range(-1e11, 1e12).Draw(t, "born"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).UTC(),
		}
		if rapid.Bool().Draw(t, "more") {
			p.Limit = new(big.Int).Lsh(big.NewInt(p.Int), 70)
			p.From = netip.AddrFrom4([4]byte{1, 2, 3, 4})
		}
		if depth > 0 {
			p.Kids = rapid.SliceOfN(plains(depth-1), 0, 2).Draw(t, "kids")
		}
		return p
	})
}

var same = cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b *big.Int) bool { return a == b || a != nil && b != nil && a.Cmp(b) == 0 })}

// What Encode accepts, Decode returns.
func TestJSONReadsBackWhatItAccepts(t *testing.T) {
	t.Parallel()
	c := codec.JSON[plain]("plain")
	rapid.Check(t, func(t *rapid.T) {
		v := plains(2).Draw(t, "value")
		p, err := c.Encode(v)
		if err != nil {
			return
		}
		if back, err := c.Decode(p); err != nil || !cmp.Equal(v, back, same) {
			t.Fatalf("%s: %v\n%s", p.Data, err, cmp.Diff(v, back, same))
		}
	})
}

func values(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.Uint64().AsAny(), rapid.Float64().AsAny(), anyText.AsAny(),
	}
	if depth > 0 {
		leaves = append(leaves, rapid.SliceOfN(values(depth-1), 0, 3).AsAny(), rapid.MapOfN(anyText, values(depth-1), 0, 3).AsAny())
	}
	return rapid.OneOf(leaves...)
}

func TestJSONReadsBackAny(t *testing.T) {
	t.Parallel()
	c := codec.JSON[map[string]any]("any")
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.MapOfN(anyText, values(2), 0, 3).Draw(t, "value")
		p, err := c.Encode(v)
		if err != nil {
			return
		}
		accepted++
		back, err := c.Decode(p)
		if err != nil || !cmp.Equal(numbers(v), numbers(back), cmpopts.EquateEmpty()) {
			t.Fatalf("%s: %v\n%s", p.Data, err, cmp.Diff(numbers(v), numbers(back), cmpopts.EquateEmpty()))
		}
	})
	if accepted == 0 {
		t.Error("nothing was accepted")
	}
}

// numbers replaces numbers, of which JSON has one kind only, by their exact values as text.
func numbers(v any) any {
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	case float64:
		if math.Trunc(v) == v {
			whole, _ := big.NewFloat(v).Int(nil)
			return whole.String()
		}
		return v
	case []any:
		all := slices.Clone(v)
		for i := range all {
			all[i] = numbers(all[i])
		}
		return all
	case map[string]any:
		all := maps.Clone(v)
		for k := range all {
			all[k] = numbers(all[k])
		}
		return all
	}
	return v
}

type shape interface{ area() int }
type square struct{ Side int }

func (s square) area() int { return s.Side * s.Side }

type hidden struct{ N int }
type embeds struct{ *hidden }
type tree struct{ Kids []tree }

// unordered is a set that writes itself in the order of a map.
type unordered map[string]bool

func (u unordered) MarshalJSON() ([]byte, error) { return json.Marshal(slices.Collect(maps.Keys(u))) }
func (u *unordered) UnmarshalJSON(data []byte) error {
	var all []string
	err := json.Unmarshal(data, &all)
	*u = unordered{}
	for _, name := range all {
		(*u)[name] = true
	}
	return err
}

type counted struct{ n int }

func (c *counted) MarshalJSON() ([]byte, error)    { return json.Marshal(c.n) }
func (c *counted) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &c.n) }

// laps, owned and large have marshalers that read back what they write.
type laps []time.Time

func (l laps) MarshalJSON() ([]byte, error)     { return json.Marshal(len(l)) }
func (l *laps) UnmarshalJSON(data []byte) error { *l = make(laps, data[0]-'0'); return nil }

type owned map[*int]any

func (o owned) MarshalText() ([]byte, error) { return make([]byte, len(o)), nil }
func (o *owned) UnmarshalText(text []byte) error {
	*o = owned{}
	for range text {
		(*o)[new(int)] = *o
	}
	return nil
}

type large int64

func (l large) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(l), 10), nil }
func (l *large) UnmarshalText(text []byte) (err error) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	*l = large(n)
	return err
}

// folded are map keys of which many become one.
type folded struct{ text string }

func (f folded) MarshalText() ([]byte, error)     { return []byte(strings.ToLower(f.text)), nil }
func (f *folded) UnmarshalText(text []byte) error { f.text = string(text); return nil }

type verbatim struct{ text string }

func (v verbatim) MarshalText() ([]byte, error)     { return []byte(v.text), nil }
func (v *verbatim) UnmarshalText(text []byte) error { v.text = string(text); return nil }

func encodes[T any](v T) func() error {
	return func() error {
		c := codec.JSON[T]("x")
		p, err := c.Encode(v)
		if err == nil {
			_, err = c.Decode(p)
		}
		return err
	}
}

func TestJSONRefusesWhatItDoesNotReadBack(t *testing.T) {
	t.Parallel()
	deep := func(levels int) (v tree) {
		for range levels {
			v = tree{[]tree{v}}
		}
		return v
	}
	for name, encode := range map[string]func() error{
		"invalid UTF-8": encodes("a\xff"), "three keys become one": encodes(map[string]int{"\xff": 1, "\xfe": 2, "\xfd": 3}),
		"invalid UTF-8 in an any": encodes(map[string]any{"a": []any{"\xff"}}), "keys by text": encodes(map[folded]int{{"A"}: 1, {"a"}: 2}),
		"an interface": encodes([]shape{square{2}}), "an embedded pointer": encodes(embeds{&hidden{1}}),
		"an integer that is no float": encodes[any](int64(1<<60 + 1)), "one that reads like it": encodes[any]([]any{uint64(18014425998426110)}), "seconds in the zone": encodes([]time.Time{time.Unix(0, 0).In(time.FixedZone("", 53*60+28))}), "the same in an any": encodes[any](time.Unix(0, 0).In(time.FixedZone("", 1))),
		"year 10000": encodes(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)), "5,001 levels of two": encodes(deep(5_001)),
		"seconds in the zone of a key":                      encodes(map[time.Time]int{time.Unix(0, 0).In(time.FixedZone("", 1)): 1}),
		"a prefix with bits that its address does not have": encodes(netip.PrefixFrom(netip.AddrFrom4([4]byte{1}), 33)), "two keys of one port": encodes(map[netip.AddrPort]int{netip.AddrPortFrom(netip.Addr{}, 1): 1, {}: 2}),
		"a marshaler of a pointer, in a map": encodes(map[string]big.Int{"a": *big.NewInt(7)}),
		"two keys of one time":               encodes(map[time.Time]int{time.Unix(0, 0).In(time.FixedZone("a", 0)): 1, time.Unix(0, 0).In(time.FixedZone("b", 0)): 2}),
		"a field that CBOR leaves out": encodes(struct {
			V any `json:"v" cbor:"-"`
		}{int64(1<<60 + 1)}),
		"keys that are pointers":   encodes(map[*big.Int]int{big.NewInt(1): 1, big.NewInt(1): 2}),
		"invalid UTF-8 in a Kept":  encodes(codec.Kept[map[string]string]{Value: map[string]string{"a": "\xff"}}),
		"invalid UTF-8 in JSON":    encodes(codec.Kept[struct{}]{Other: map[string]json.RawMessage{"a": json.RawMessage("\"\xff\"")}}),
		"invalid UTF-8 of a text":  encodes(verbatim{"\xff"}),
		"beside half a pair":       encodes(map[verbatim]any{{"\xff"}: json.RawMessage(`"\ud800"`)}),
		"a pointer to a nil slice": encodes(&struct{ Tags *[]string }{new([]string)}), "to a nil map": encodes(new(map[string]int)),
		"to a nil pointer": encodes(new(*int)), "to a nil any": encodes(new(any)), "to nil in an any": encodes([]any{new([]int)}),
	} {
		if err := encode(); err == nil || !strings.Contains(err.Error(), "codec: encode") {
			t.Errorf("%s: got %v, want that Encode refuses it", name, err)
		}
	}
	own := owned{}
	own[new(int)] = own
	for name, encode := range map[string]func() error{
		"U+FFFD": encodes("\uFFFD"), "letters after a backslash": encodes(`\ufffd`), "escaped by others": encodes(json.RawMessage(`"\ufffd"`)),
		"half a surrogate pair": encodes(json.RawMessage(`"\ud800"`)),
		"half a pair in a Kept": encodes(map[time.Time]codec.Kept[struct{}]{time.Unix(0, 0).UTC(): {Other: map[string]json.RawMessage{"a": json.RawMessage(`"\uDC00"`)}}}),
		"a set":                 encodes(unordered{"a": true, "b": true, "c": true, "d": true, "e": true, "f": true}), "nil interface": encodes[shape](nil),
		"pointers": encodes(struct {
			A, B *[]string
			C    *map[string]int
		}{nil, &[]string{}, &map[string]int{}}),
		"an embedded nil": encodes(embeds{}), "a marshaler of a pointer": encodes(struct{ N big.Int }{*big.NewInt(7)}), "another": encodes([1]counted{{7}}), "a prefix": encodes(netip.PrefixFrom(netip.AddrFrom4([4]byte{1}), 32)),
		"marshalers beside an any": encodes(struct {
			A any
			L laps
			O owned
		}{large(1<<60 + 1), laps{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, own}),
		"any": encodes[any](map[string]any{"n": 1.5, "m": int64(1 << 53)}), "1,000 levels": encodes(deep(1_000)),
		"integers": encodes(map[string]any{"n": int64(1 << 53), "m": []int{math.MaxInt32}, "k": struct{ N int64 }{-5}}), "many brackets": encodes(strings.Repeat("[{", 20_000)), "wide": encodes(make([]tree, 20_000)),
		"keys": encodes(map[time.Time]map[int64]any{time.Unix(0, 0).UTC(): {1<<60 + 1: 1}, time.Unix(1, 0).UTC(): nil}),
	} {
		if err := encode(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Guards ReadBack for a codec of the user's own.
func TestReadBack(t *testing.T) {
	t.Parallel()
	marshal := func(n int) ([]byte, error) { return []byte{byte(n)}, nil }
	unmarshal := func(data []byte) (int, error) {
		if data[0] == 7 {
			return 0, codec.Fault("a seven")
		}
		return int(data[0]) &^ 1, nil
	}
	c := codec.Of(1000, "x", codec.ReadBack(marshal, unmarshal), unmarshal)
	for n, want := range map[int]string{2: "", 3: "something else", 7: "not be read back: a seven"} {
		if _, err := c.Encode(n); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d: got %v, want %q", n, err, want)
		}
	}
}

func zipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Written by the Jackson serializer of Pekko 1.1, for an address of 39,000 letters.
const jacksonGzip = "H4sIAAAAAAAA/+3HsQmAMBAAwFXCj+E2wotNMJAvxd3TWGeCu+7eODPnVRVH9PHc7W8TERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERERGRbeJb8dKZr2aYAAA="

func TestJSONReadsWhatJacksonCompressed(t *testing.T) {
	t.Parallel()
	type shipped struct{ Address string }
	c := codec.JSON("golden.events.Shipped#2", codec.Was(codec.JSON[shipped]("golden.events.Shipped"), func(s shipped) (shipped, error) { return s, nil }))
	jackson, err := base64.StdEncoding.DecodeString(jacksonGzip)
	if err != nil {
		t.Fatal(err)
	}
	for _, manifest := range []string{"golden.events.Shipped#2", "golden.events.Shipped"} {
		v, err := c.Decode(annals.Payload{SerializerID: 31, Manifest: manifest, Data: jackson})
		if err != nil || len(v.Address) != 39_000 {
			t.Errorf("%s: got %d bytes, %v, want 39,000", manifest, len(v.Address), err)
		}
	}
	for want, data := range map[string][]byte{"broken gzip": jackson[:len(jackson)-9], "broken JSON": zipped(t, []byte("{"))} {
		if _, err := c.Decode(annals.Payload{SerializerID: 31, Manifest: "golden.events.Shipped", Data: data}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// secret is a text that a decoder refuses with an error that repeats it.
type secret struct{}

func (s secret) MarshalText() ([]byte, error) { return nil, errors.New("4711 is secret") }
func (s *secret) UnmarshalText(text []byte) error {
	return &strconv.NumError{Func: "secret", Num: string(text), Err: errSecret}
}

var errSecret = errors.New("secret")

// The text of an error of a type's own marshaler must not reach a log; errors.Is finds the error.
func TestErrorsOfUsersTypesCarryNoPayload(t *testing.T) {
	t.Parallel()
	type all struct {
		Limit  big.Int
		From   netip.Addr
		Number json.Number
		Quoted int `json:",string"`
		Own    secret
		Born   time.Time

		Keys    map[string]int
		Numbers map[int]int
	}
	c := codec.JSON("all", codec.Was(codec.JSON[int]("lifted"), func(n int) (all, error) { _, err := strconv.Atoi("x" + strconv.Itoa(n)); return all{}, err }))
	for _, p := range []annals.Payload{
		{Manifest: "all", Data: []byte(`{"Limit":"x4711"}`)}, {Manifest: "all", Data: []byte(`{"From":"x4711"}`)},
		{Manifest: "all", Data: []byte(`{"Number":"x4711"}`)}, {Manifest: "all", Data: []byte(`{"Quoted":"x4711"}`)},
		{Manifest: "all", Data: []byte(`{"Own":"x4711"}`)}, {Manifest: "all", Data: []byte(`{"Born":"x4711"}`)}, {Manifest: "lifted", Data: []byte(`4711`)},
		{Manifest: "all", Data: []byte(`{"Keys":{"4711":"x"}}`)}, {Manifest: "all", Data: []byte(`{"Numbers":{"x4711":1}}`)},
	} {
		p.SerializerID = 31
		_, err := c.Decode(p)
		silent(t, string(p.Data), err)
		if strings.Contains(string(p.Data), "Own") && !errors.Is(err, errSecret) {
			t.Error("the error cannot be matched")
		}
	}
	_, err := codec.JSON[secret]("secret").Encode(secret{})
	silent(t, "MarshalText", err)
	_, err = codec.JSON[json.Number]("number").Encode("x4711")
	silent(t, "json.Number", err)
}

// silent demands an error that repeats no payload, and whose causes do not either.
func silent(t *testing.T, name string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", name)
	}
	for err := err; err != nil; err = errors.Unwrap(err) {
		if strings.Contains(err.Error(), "4711") {
			t.Errorf("%s: the error repeats the payload: %v", name, err)
		}
	}
}
