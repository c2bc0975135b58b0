package codec_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
)

type named struct{ First, Last string }
type namedV1 struct{ Name string }

func lift(v namedV1) (named, error) {
	first, last, ok := strings.Cut(v.Name, " ")
	if !ok {
		return named{}, errors.New("a name without a space")
	}
	return named{first, last}, nil
}

var names = codec.JSON("person.named#2", codec.Was(codec.JSON[namedV1]("person.named"), lift))

var _ codec.Codec[named] = names

// faults are those that a host finds in a codec.
func faults(c any) error { return c.(interface{ Validate() error }).Validate() }

func TestTypeReadsWhatItWrites(t *testing.T) {
	t.Parallel()
	p, err := names.Encode(named{"Ada", "Lovelace"})
	if err != nil {
		t.Fatal(err)
	}
	if want := (annals.Payload{SerializerID: 31, Manifest: "person.named#2", Data: []byte(`{"First":"Ada","Last":"Lovelace"}`)}); !cmp.Equal(p, want) {
		t.Error(cmp.Diff(want, p))
	}
	if v, err := names.Decode(p); err != nil || v != (named{"Ada", "Lovelace"}) {
		t.Errorf("got %v, %v", v, err)
	}
}

func TestTypeReadsFormerVersions(t *testing.T) {
	t.Parallel()
	old := annals.Payload{SerializerID: 31, Manifest: "person.named", Data: []byte(`{"Name":"Ada Lovelace"}`)}
	if v, err := names.Decode(old); err != nil || v != (named{"Ada", "Lovelace"}) {
		t.Errorf("got %v, %v", v, err)
	}
	old.Data = []byte(`{"Name":"Ada"}`)
	if v, err := names.Decode(old); err == nil || v != (named{}) {
		t.Errorf("got %v, %v, want the error of lift", v, err)
	}
}

// A former version can have former versions of its own.
func TestFormerVersionOfAFormerVersion(t *testing.T) {
	t.Parallel()
	third := codec.JSON("person.named#3", codec.Was(names, func(n named) (string, error) { return n.Last, nil }))
	for _, p := range []annals.Payload{
		{SerializerID: 31, Manifest: "person.named#3", Data: []byte(`"Lovelace"`)},
		{SerializerID: 31, Manifest: "person.named#2", Data: []byte(`{"First":"Ada","Last":"Lovelace"}`)},
		{SerializerID: 31, Manifest: "person.named", Data: []byte(`{"Name":"Ada Lovelace"}`)},
	} {
		if v, err := third.Decode(p); err != nil || v != "Lovelace" {
			t.Errorf("%s: got %v, %v", p.Manifest, v, err)
		}
		if v, err := codec.Union[any](third).Decode(p); err != nil || v != "Lovelace" {
			t.Errorf("%s in a union: got %v, %v", p.Manifest, v, err)
		}
	}
	if err := faults(codec.JSON("person.named", codec.Was(names, func(n named) (string, error) { return n.Last, nil }))); err == nil {
		t.Error("the manifest of a former version of a former version occurs twice, and Validate has found nothing")
	}
}

// A former version can have another format than the current one.
func TestFormerVersionInAnotherFormat(t *testing.T) {
	t.Parallel()
	toCSV := func(n named) ([]byte, error) { return []byte(n.First + "," + n.Last), nil }
	fromCSV := func(data []byte) (named, error) {
		first, last, _ := strings.Cut(string(data), ",")
		return named{first, last}, nil
	}
	c := codec.Of(1000, "person.named", toCSV, fromCSV, codec.Was(codec.JSON[namedV1]("person.named"), lift))
	if err := c.Validate(); err != nil {
		t.Fatal(err) // one manifest in two formats is two keys
	}
	for _, p := range []annals.Payload{
		{SerializerID: 1000, Manifest: "person.named", Data: []byte("Ada,Lovelace")},
		{SerializerID: 31, Manifest: "person.named", Data: []byte(`{"Name":"Ada Lovelace"}`)},
	} {
		if v, err := c.Decode(p); err != nil || v != (named{"Ada", "Lovelace"}) {
			t.Errorf("serializer %d: got %v, %v", p.SerializerID, v, err)
		}
	}
}

func TestUnknownManifest(t *testing.T) {
	t.Parallel()
	for _, p := range []annals.Payload{{SerializerID: 31, Manifest: "person.renamed"}, {SerializerID: 33, Manifest: "person.named"}} {
		_, err := names.Decode(p)
		var unknown *codec.UnknownManifestError
		if !errors.As(err, &unknown) || unknown.Manifest != p.Manifest || unknown.SerializerID != p.SerializerID || !strings.Contains(err.Error(), p.Manifest) {
			t.Errorf("%v: got %v", p, err)
		}
	}
}

// The errors of encoding/json repeat parts of their input, which must not reach a log.
func TestErrorsCarryNoPayload(t *testing.T) {
	t.Parallel()
	type person struct {
		Age  int
		Born time.Time
	}
	c := codec.JSON[person]("person")
	for _, text := range []string{`{"Age":"4711"}`, `{"Age":4711.5}`, `{"Age":4711e999}`, `{"Born":"4711"}`, `{"Age":4711`, `4711]`} {
		_, err := c.Decode(annals.Payload{SerializerID: 31, Manifest: "person", Data: []byte(text)})
		if err == nil || !strings.Contains(err.Error(), `"person"`) {
			t.Errorf("%s: got %v, want an error that names the manifest", text, err)
		}
		for err := err; err != nil; err = errors.Unwrap(err) {
			if strings.Contains(err.Error(), "4711") {
				t.Errorf("%s: the error repeats the payload: %v", text, err)
			}
		}
	}
}

type event interface{ event() }
type (
	opened struct{ Name string }
	closed struct{}
)

func (*opened) event() {}
func (closed) event()  {}

var events = codec.Union[event](codec.JSON[*opened]("opened"), codec.JSON[closed]("closed"))

func TestUnion(t *testing.T) {
	t.Parallel()
	if err := faults(events); err != nil {
		t.Fatal(err)
	}
	for _, e := range []event{&opened{"x"}, closed{}} {
		p, err := events.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		back, err := events.Decode(p)
		if err != nil || !cmp.Equal(e, back) {
			t.Errorf("%#v comes back as %#v, %v", e, back, err)
		}
	}
	if _, err := events.Encode(nil); err == nil {
		t.Error("nil was encoded")
	}
	if _, err := codec.Union[event](codec.JSON[closed]("closed")).Encode(&opened{}); err == nil || !strings.Contains(err.Error(), "opened") {
		t.Errorf("no member: %v", err)
	}
	var unknown *codec.UnknownManifestError
	if _, err := events.Decode(annals.Payload{SerializerID: 31, Manifest: "renamed"}); !errors.As(err, &unknown) || unknown.Manifest != "renamed" {
		t.Errorf("unknown manifest: %v", err)
	}
}

func TestUnionFaults(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"int is no":           faults(codec.Union[event](codec.JSON[int]("int"))),
		"is an interface":     faults(codec.Union[event](codec.JSON[event]("event"))),
		"closed twice":        faults(codec.Union[event](codec.JSON[closed]("a"), codec.JSON[closed]("b"))),
		`"x" (serializer 31)`: faults(codec.Union[event](codec.JSON[closed]("x"), codec.JSON[*opened]("x"))),
		"no serializer id":    faults(codec.Union[event](codec.Of[closed](0, "x", nil, nil))),
		"which is no interf":  faults(codec.Union[closed](codec.JSON[closed]("x"))),
		`"x" (serializer 31) twice`: faults(codec.JSON("x", codec.Was(codec.JSON[closed]("x"), func(closed) (closed, error) {
			return closed{}, nil
		}))),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// What is made of nil is a fault, and none of its calls panics.
func TestNil(t *testing.T) {
	t.Parallel()
	marshal, unmarshal := func(closed) ([]byte, error) { return nil, nil }, func([]byte) (closed, error) { return closed{}, nil }
	lift := func(closed) (closed, error) { return closed{}, nil }
	unread := codec.Of[closed](1, "x", marshal, nil)
	for name, c := range map[string]*codec.Type[closed]{
		"marshal": codec.Of(1, "x", nil, unmarshal), "unmarshal": unread, "a read back": codec.Of(1, "x", codec.ReadBack(nil, unmarshal), unmarshal),
		"lift": codec.JSON("x", codec.Was[closed, closed](codec.JSON[closed]("y"), nil)), "former": codec.JSON("x", codec.Was(nil, lift)),
		"a function of a former version": codec.JSON("x", codec.Was(unread, lift)), "the zero Former": codec.JSON("x", codec.Former[closed]{}),
		"a former version of a former version": codec.JSON("x", codec.Was(codec.JSON("y", codec.Was(nil, lift)), lift)),
	} {
		if err := faults(codec.Union[event](c)); err == nil || !strings.Contains(err.Error(), "is nil") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.Encode(closed{}); err == nil {
			t.Errorf("%s: it encodes", name)
		}
		for _, id := range []int32{1, codec.JSONSerializer} {
			for _, manifest := range []string{"x", "y"} {
				if _, err := c.Decode(annals.Payload{SerializerID: id, Manifest: manifest, Data: []byte("{}")}); err == nil {
					t.Errorf("%s: it decodes", name)
				}
			}
		}
	}
	var none *codec.Type[closed]
	if faults(codec.Union[event](nil)) == nil || faults(codec.Union[event](none)) == nil || none.Validate() == nil {
		t.Error("a codec that is nil is no fault")
	}
}

func TestChangesAndColumns(t *testing.T) {
	t.Parallel()
	p, err := names.Encode(named{"Ada", "Lovelace"})
	if err != nil {
		t.Fatal(err)
	}
	stored := annals.State{ID: "Person|1", Revision: 2, Payload: p}
	var seen []codec.Change[named]
	handle := codec.OnChange(names, func(_ context.Context, tx string, c codec.Change[named]) error {
		if tx != "tx" {
			t.Errorf("the transaction is %q", tx)
		}
		seen = append(seen, c)
		return nil
	})
	tombstone := annals.State{ID: "Person|1", Revision: 3, Deleted: true}
	for _, s := range []annals.State{stored, tombstone} {
		if err := handle(t.Context(), "tx", s); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 2 || seen[0].Value.Last != "Lovelace" || seen[0].Revision != 2 || !seen[1].Deleted || seen[1].Value != (named{}) {
		t.Errorf("got %+v", seen)
	}
	bind := codec.Columns(names, func(n named) annals.Columns { return annals.Columns{"last": n.Last} })
	if columns, err := bind(stored); err != nil || columns["last"] != "Lovelace" {
		t.Errorf("got %v, %v", columns, err)
	}
	stored.Manifest = "unknown"
	if _, err := bind(stored); err == nil {
		t.Error("an unknown manifest was bound")
	}
	if err := handle(t.Context(), "tx", stored); err == nil {
		t.Error("an unknown manifest was handled")
	}
}

func FuzzUnionDecode(f *testing.F) {
	f.Add(int32(31), "opened", []byte(`{"Name":"x"}`))
	f.Add(int32(31), "closed", []byte(`{}`))
	f.Add(int32(31), "opened", []byte(`null`))
	f.Add(int32(33), "opened", []byte(`{`))
	f.Fuzz(func(t *testing.T, serializer int32, manifest string, data []byte) {
		e, err := events.Decode(annals.Payload{SerializerID: serializer, Manifest: manifest, Data: data})
		if err != nil {
			return
		}
		p, err := events.Encode(e)
		if err != nil || p.Manifest != manifest || !json.Valid(p.Data) {
			t.Errorf("%#v was read, but is written as %q, %v", e, p.Manifest, err)
		}
	})
}
