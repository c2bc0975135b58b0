package protocodec_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/codec/protocodec"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	c := protocodec.Of[*wrapperspb.StringValue]("text")
	p, err := c.Encode(wrapperspb.String("Ada"))
	if err != nil || p.SerializerID != 2 || p.Manifest != "text" || string(p.Data) != "\x0a\x03Ada" {
		t.Fatalf("got %v, %v", p, err)
	}
	if v, err := c.Decode(p); err != nil || v.GetValue() != "Ada" {
		t.Errorf("got %v, %v", v, err)
	}
	p.Data = []byte{0x0a, 0xff}
	if v, err := c.Decode(p); err == nil || v != nil {
		t.Errorf("broken bytes were read as %v", v)
	}
}

func TestEncodingIsDeterministic(t *testing.T) {
	t.Parallel()
	fields := map[string]any{}
	for _, k := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		fields[k] = k
	}
	s, err := structpb.NewStruct(fields)
	if err != nil {
		t.Fatal(err)
	}
	c := protocodec.Of[*structpb.Struct]("struct")
	first, err := c.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if p, err := c.Encode(proto.Clone(s).(*structpb.Struct)); err != nil || string(p.Data) != string(first.Data) {
			t.Fatal("two encodings of one message differ")
		}
	}
}

// Former versions can be JSON or another message.
func TestFormerVersions(t *testing.T) {
	t.Parallel()
	type v1 struct{ Name string }
	c := protocodec.Of("text#3",
		codec.Was(codec.JSON[v1]("text"), func(v v1) (*wrapperspb.StringValue, error) { return wrapperspb.String(v.Name), nil }),
		codec.Was(protocodec.Of[*wrapperspb.BytesValue]("text#2"), func(v *wrapperspb.BytesValue) (*wrapperspb.StringValue, error) {
			return wrapperspb.String(string(v.GetValue())), nil
		}))
	for _, p := range []annals.Payload{
		{SerializerID: 31, Manifest: "text", Data: []byte(`{"Name":"Ada"}`)},
		{SerializerID: 2, Manifest: "text#2", Data: []byte("\x0a\x03Ada")},
		{SerializerID: 2, Manifest: "text#3", Data: []byte("\x0a\x03Ada")},
	} {
		if v, err := c.Decode(p); err != nil || v.GetValue() != "Ada" {
			t.Errorf("%s: got %v, %v", p.Manifest, v, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	c := protocodec.Of[*structpb.Struct]("struct")
	f.Add([]byte("\x0a\x03Ada"))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := c.Decode(annals.Payload{SerializerID: 2, Manifest: "struct", Data: data})
		if err == nil && v == nil {
			t.Error("neither a message nor an error")
		}
	})
}

// What Encode accepts, Decode returns.
func TestRefusesWhatItDoesNotReadBack(t *testing.T) {
	t.Parallel()
	deep := func(levels int) *structpb.Value {
		v := structpb.NewBoolValue(true)
		for range levels {
			v = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{v}})
		}
		return v
	}
	c := protocodec.Of[*structpb.Value]("value")
	for name, refused := range map[string]*structpb.Value{
		"10,002 levels": deep(5_001), "invalid UTF-8": structpb.NewStringValue("4711\xff"),
	} {
		if _, err := c.Encode(refused); err == nil || strings.Contains(err.Error(), "4711") {
			t.Errorf("%s: got %v, want that Encode refuses it, without payload", name, err)
		}
	}
	for name, accepted := range map[string]*structpb.Value{"4,000 levels": deep(2_000), "long": structpb.NewStringValue(strings.Repeat("x", 50_000))} {
		p, err := c.Encode(accepted)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if back, err := c.Decode(p); err != nil || !proto.Equal(back, accepted) {
			t.Errorf("%s: read back as something else, %v", name, err)
		}
	}
}

// person is a domain type of the tests, stored as a structpb.Struct.
type person struct{ First, Last string }

func toStruct(p person) (*structpb.Struct, error) {
	return structpb.NewStruct(map[string]any{"first": p.First, "last": p.Last})
}

func fromStruct(m *structpb.Struct) (person, error) {
	fields := m.GetFields()
	if fields["first"] == nil || fields["last"] == nil {
		return person{}, codec.Fault("a name is missing")
	}
	return person{fields["first"].GetStringValue(), fields["last"].GetStringValue()}, nil
}

type named interface{ named() }

func (person) named() {}

func TestMap(t *testing.T) {
	t.Parallel()
	c := protocodec.Map("person#2", toStruct, fromStruct,
		codec.Was(protocodec.Of[*wrapperspb.StringValue]("person"), func(m *wrapperspb.StringValue) (person, error) { return person{Last: m.GetValue()}, nil }))
	union := codec.Union[named](c)
	if err := union.(interface{ Validate() error }).Validate(); err != nil {
		t.Fatal(err)
	}
	ada := person{"Ada", "Lovelace"}
	p, err := union.Encode(ada)
	if err != nil || p.SerializerID != 2 || p.Manifest != "person#2" {
		t.Fatalf("got %v, %v", p, err)
	}
	if back, err := union.Decode(p); err != nil || back != named(ada) {
		t.Errorf("read back as %v, %v", back, err)
	}
	old := annals.Payload{SerializerID: 2, Manifest: "person", Data: []byte("\x0a\x08Lovelace")}
	if back, err := c.Decode(old); err != nil || back != (person{Last: "Lovelace"}) {
		t.Errorf("the former version is read as %v, %v", back, err)
	}
	p.Data = nil
	if back, err := c.Decode(p); err == nil || back != (person{}) || !strings.Contains(err.Error(), "a name is missing") {
		t.Errorf("a message without names is read as %v, %v", back, err)
	}
	p.Data = []byte{0x0a, 0xff}
	if back, err := c.Decode(p); err == nil || back != (person{}) {
		t.Errorf("broken bytes are read as %v", back)
	}
}

// A function that is nil is a fault.
func TestMapOfNil(t *testing.T) {
	t.Parallel()
	for _, c := range []*codec.Type[person]{protocodec.Map("person", nil, fromStruct), protocodec.Map("person", toStruct, nil)} {
		if c.Validate() == nil {
			t.Error("it is no fault")
		}
		if _, err := c.Encode(person{}); err == nil {
			t.Error("it encodes")
		}
	}
}

// Guards the ReadBack in Map.
func TestMapRefusesWhatItDoesNotReadBack(t *testing.T) {
	t.Parallel()
	secret := person{"4711", "4711"}
	for name, c := range map[string]*codec.Type[person]{
		"a field is lost": protocodec.Map("person", toStruct, func(m *structpb.Struct) (person, error) {
			p, err := fromStruct(m)
			p.Last = ""
			return p, err
		}),
		"a field is changed": protocodec.Map("person", toStruct, func(m *structpb.Struct) (person, error) {
			p, err := fromStruct(m)
			p.First += " the First"
			return p, err
		}),
		"it is refused": protocodec.Map("person", toStruct, func(*structpb.Struct) (person, error) { return person{}, errors.New("4711") }),
		"no message":    protocodec.Map("person", func(person) (*structpb.Struct, error) { return nil, errors.New("4711") }, fromStruct),
		"text":          protocodec.Map("person", func(p person) (*structpb.Struct, error) { return toStruct(person{p.First + "\xff", p.Last}) }, fromStruct),
	} {
		if p, err := c.Encode(secret); err == nil || strings.Contains(err.Error(), "4711") {
			t.Errorf("%s: got %v, %v, want an error that repeats nothing of the value", name, p, err)
		}
	}
}
