package sealed_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/codec/sealed"
	"github.com/annals-go/annals/memstore"
)

// named is an event: Subject is "" for one that is not personal.
type named struct{ Subject, Name string }

const gone = "(forgotten)"

var plain = codec.JSON[named]("named")

func newMaster(t testing.TB, keys ...[]byte) sealed.Master {
	t.Helper()
	if len(keys) == 0 {
		keys = [][]byte{newMasterKey()}
	}
	m, err := sealed.AES(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newMasterKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	return key
}

func newKeys(t testing.TB, store annals.Store, m sealed.Master) *sealed.Keys {
	t.Helper()
	keys, err := sealed.NewKeys(store, m, sealed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func newCodec(keys *sealed.Keys) codec.Codec[named] {
	return sealed.Payloads(plain, keys, func(n named) string { return n.Subject },
		func(subject string) named { return named{subject, gone} })
}

func encode(t testing.TB, c codec.Codec[named], v named) annals.Payload {
	t.Helper()
	p, err := c.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func wantDecoded(t testing.TB, c codec.Codec[named], p annals.Payload, want named) {
	t.Helper()
	if v, err := c.Decode(p); err != nil || v != want {
		t.Errorf("decoded: %+v, %v, want %+v", v, err, want)
	}
}

func TestPayloads(t *testing.T) {
	t.Parallel()
	store, m := memstore.New(), newMaster(t)
	keys := newKeys(t, store, m)
	c := newCodec(keys)
	ada := named{"7", "Ada Lovelace"}
	p := encode(t, c, ada)
	if p.SerializerID != sealed.Serializer || p.Manifest != "named" || bytes.Contains(p.Data, []byte("Ada")) {
		t.Errorf("sealed: serializer %d, manifest %q, data %q", p.SerializerID, p.Manifest, p.Data)
	}
	wantDecoded(t, c, p, ada)
	if again := encode(t, c, ada); bytes.Equal(again.Data, p.Data) {
		t.Error("two payloads of one value are equal")
	}

	// What is not personal, and what was stored before.
	nobody := named{"", "opened"}
	if p := encode(t, c, nobody); p.SerializerID != codec.JSONSerializer {
		t.Errorf("without a subject: serializer %d", p.SerializerID)
	}
	wantDecoded(t, c, encode(t, c, nobody), nobody)
	wantDecoded(t, c, encode(t, plain, ada), ada)

	// Another process, before and after the key is destroyed.
	wantDecoded(t, newCodec(newKeys(t, store, m)), p, ada)
	for range 2 {
		if err := keys.Destroy(t.Context(), "7"); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []codec.Codec[named]{c, newCodec(newKeys(t, store, m))} {
		wantDecoded(t, c, p, named{"7", gone})
		wantDecoded(t, c, encode(t, plain, ada), ada)
		_, err := c.Encode(ada)
		if !errors.Is(err, sealed.ErrForgotten) || !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("encode: %v, want ErrForgotten", err)
		}
	}
	if err := keys.Rotate(t.Context(), "7"); !errors.Is(err, sealed.ErrForgotten) {
		t.Errorf("rotate: %v, want ErrForgotten", err)
	}
	if err := keys.Rewrap(t.Context(), "7"); err != nil {
		t.Errorf("rewrap: %v", err)
	}
	wantDecoded(t, c, encode(t, c, named{"8", "Grace"}), named{"8", "Grace"})
}

// A subject that is destroyed before its first payload never gets a key.
func TestDestroyFirst(t *testing.T) {
	t.Parallel()
	store, m := memstore.New(), newMaster(t)
	if err := newKeys(t, store, m).Destroy(t.Context(), "7"); err != nil {
		t.Fatal(err)
	}
	if _, err := newCodec(newKeys(t, store, m)).Encode(named{"7", "Ada"}); !errors.Is(err, sealed.ErrForgotten) {
		t.Errorf("encode: %v, want ErrForgotten", err)
	}
}

func TestChangedPayloads(t *testing.T) {
	t.Parallel()
	c := newCodec(newKeys(t, memstore.New(), newMaster(t)))
	p := encode(t, c, named{"77", "Ada"})
	other := encode(t, c, named{"78", "Grace"})
	corrupt := func(what string, p annals.Payload) {
		t.Helper()
		if v, err := c.Decode(p); !errors.Is(err, annals.ErrCorrupt) || errors.Is(err, annals.ErrUnavailable) || v != (named{}) {
			t.Errorf("%s: %+v, %v, want ErrCorrupt", what, v, err)
		}
	}
	for i := range p.Data {
		changed := p
		changed.Data = bytes.Clone(p.Data)
		for bit := range 8 {
			changed.Data[i] ^= 1 << bit
			corrupt("a changed bit", changed)
			changed.Data[i] ^= 1 << bit
		}
		changed.Data = p.Data[:i]
		corrupt("a payload that was cut", changed)
	}
	changed := p
	changed.Manifest = "renamed"
	corrupt("another manifest", changed)
	changed = p
	changed.Data = append(bytes.Clone(p.Data), 0)
	corrupt("a longer payload", changed)
	changed.Data = append(bytes.Clone(p.Data[:6]), other.Data[6:]...) // version, serializer id, number, length, "77"
	corrupt("a ciphertext of another subject", changed)
	for name, data := range map[string]string{
		"key 0": "\x01\x3e\x00\x0277", "a long length": "\x01\x3e\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x0177", "no subject": "\x01\x3e\x01\x00",
		"not UTF-8": "\x01\x3e\x01\x01\xff", "U+0000": "\x01\x3e\x01\x01\x00", "a large serializer id": "\x01\xff\xff\xff\xff\xff\x01\x01\x0177",
		"a number without an end": "\x01\x3e\x80", "a key that never was": "\x01\x3e\x09\x0277", "a subject that never was": "\x01\x3e\x01\x0279",
	} {
		changed.Data = []byte(data + strings.Repeat("x", 28))
		corrupt(name, changed)
	}
}

func FuzzDecode(f *testing.F) {
	keys := newKeys(f, memstore.New(), newMaster(f))
	c := newCodec(keys)
	ada, grace := encode(f, c, named{"77", "Ada"}), encode(f, c, named{"78", "Grace"})
	if err := keys.Destroy(context.Background(), "78"); err != nil {
		f.Fatal(err)
	}
	for _, p := range []annals.Payload{ada, grace} {
		f.Add(p.Data)
		f.Add(p.Data[:20])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := c.Decode(annals.Payload{SerializerID: sealed.Serializer, Manifest: "named", Data: data})
		switch {
		case err != nil:
		case v == (named{"77", "Ada"}) && bytes.Equal(data, ada.Data):
		case v == (named{"78", gone}):
		default:
			t.Errorf("%q is decoded as %+v", data, v)
		}
	})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	store, m := memstore.New(), newMaster(t)
	for name, c := range map[string]struct {
		store  annals.Store
		master sealed.Master
		o      sealed.Options
		kind   error
	}{
		"store":   {nil, m, sealed.Options{}, annals.ErrInvalid},
		"master":  {store, nil, sealed.Options{}, annals.ErrInvalid},
		"type":    {store, m, sealed.Options{Type: "a|b"}, annals.ErrInvalid},
		"text":    {store, m, sealed.Options{Type: "\xff"}, annals.ErrInvalid},
		"library": {store, m, sealed.Options{Type: "annals.keys"}, annals.ErrInvalid},
		"cache":   {store, m, sealed.Options{Cache: -1}, annals.ErrInvalid},
		"timeout": {store, m, sealed.Options{Timeout: -1}, annals.ErrInvalid},
		"states":  {claiming{store, func(c *annals.Capabilities) { c.States = false }}, m, sealed.Options{}, annals.ErrUnsupported},
		"deletes": {claiming{store, func(c *annals.Capabilities) { c.DeletesStates = false }}, m, sealed.Options{}, annals.ErrUnsupported},
	} {
		if k, err := sealed.NewKeys(c.store, c.master, c.o); !errors.Is(err, c.kind) || k != nil {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
		}
	}
	for _, keys := range [][][]byte{nil, {make([]byte, 16)}, {newMasterKey(), nil}} {
		if m, err := sealed.AES(keys...); err == nil || m != nil {
			t.Errorf("%d keys: no error", len(keys))
		}
	}

	keys := newKeys(t, store, m)
	subject, forgotten := func(named) string { return "7" }, func(string) named { return named{} }
	for name, c := range map[string]codec.Codec[named]{
		"codec":     sealed.Payloads(nil, keys, subject, forgotten),
		"keys":      sealed.Payloads(plain, nil, subject, forgotten),
		"subject":   sealed.Payloads(plain, keys, nil, forgotten),
		"forgotten": sealed.Payloads(plain, keys, subject, nil),
		"inner":     sealed.Payloads[named](codec.Of[named](0, "x", nil, nil), keys, subject, forgotten),
	} {
		if err := c.(interface{ Validate() error }).Validate(); err == nil {
			t.Errorf("%s: no fault", name)
		}
		if _, err := c.Encode(named{}); err == nil {
			t.Errorf("%s: encoded", name)
		}
		if _, err := c.Decode(annals.Payload{}); err == nil {
			t.Errorf("%s: decoded", name)
		}
	}
	if err := newCodec(keys).(interface{ Validate() error }).Validate(); err != nil {
		t.Error(err)
	}
	if _, err := newCodec(keys).Encode(named{"a\x00", "Ada"}); !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("a subject that is no text: %v", err)
	}
	if _, err := newCodec(keys).Decode(annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "named", Data: []byte("{")}); err == nil {
		t.Error("a broken payload that is not sealed was decoded")
	}
	bad := sealed.Payloads(codec.JSON[any]("any"), keys, func(any) string { return "7" }, func(string) any { return nil })
	if _, err := bad.Encode(make(chan int)); err == nil {
		t.Error("a value was encoded that the codec inside refuses")
	}
}

// claiming is a store with other claims.
type claiming struct {
	annals.Store
	change func(*annals.Capabilities)
}

func (s claiming) Capabilities() annals.Capabilities {
	c := s.Store.Capabilities()
	s.change(&c)
	return c
}
