package operate

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/examples/orders/order/orderpb"
)

// descriptors are those of orders, and of a file for Java with nested messages.
func descriptors(t testing.TB) *descriptorpb.FileDescriptorSet {
	t.Helper()
	nested := &descriptorpb.DescriptorProto{Name: new("Line_Item"), Field: []*descriptorpb.FieldDescriptorProto{
		{Name: new("pieces"), Number: new(int32(1)), Type: descriptorpb.FieldDescriptorProto_TYPE_INT64.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()},
	}}
	return &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(orderpb.File_order_proto),
		protodesc.ToFileDescriptorProto(anypb.File_google_protobuf_any_proto),
		protodesc.ToFileDescriptorProto(timestamppb.File_google_protobuf_timestamp_proto),
		{
			Name: new("shop/cart_events.proto"), Package: new("shop"), Syntax: new("proto3"),
			Options: &descriptorpb.FileOptions{JavaPackage: new("com.example")},
			MessageType: []*descriptorpb.DescriptorProto{{Name: new("Cart"), NestedType: []*descriptorpb.DescriptorProto{nested}, Field: []*descriptorpb.FieldDescriptorProto{
				{Name: new("lines"), Number: new(int32(1)), Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), TypeName: new(".shop.Cart.Line_Item"), Label: descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()},
			}}, {Name: new("Paid")}},
		},
		{
			Name: new("one.proto"), Package: new("one"), Syntax: new("proto3"),
			Options:     &descriptorpb.FileOptions{JavaMultipleFiles: new(true)},
			MessageType: []*descriptorpb.DescriptorProto{nested},
		},
		{
			Name: new("same.proto"), Syntax: new("proto3"), MessageType: []*descriptorpb.DescriptorProto{{Name: new("Same")}},
		},
	}}
}

// A manifest names its message; where it may mean several messages, or the descriptor does not have all fields, the payload is shown as it is stored.
func TestMessages(t *testing.T) {
	t.Parallel()
	files, err := protodesc.NewFiles(descriptors(t))
	if err != nil {
		t.Fatal(err)
	}
	encode := func(m proto.Message) []byte {
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	placed := encode(&orderpb.Placed{Customer: "bob", Item: "pen", Pieces: 1 << 60})
	inside, err := anypb.New(&orderpb.Cancelled{Reason: "<b>"})
	if err != nil {
		t.Fatal(err)
	}
	const placedJSON = `{"customer":"bob","item":"pen","pieces":"1152921504606846976"}`
	for name, c := range map[string]struct {
		serializer           int32
		manifest             string
		data                 []byte
		form, message, value string
	}{
		"full name":                       {2, "annals.examples.orders.Placed", placed, asProto, "annals.examples.orders.Placed", placedJSON},
		"full name, another serializer":   {99, "annals.examples.orders.Placed", placed, asProto, "annals.examples.orders.Placed", placedJSON},
		"last part":                       {2, "order.placed", placed, asProto, "annals.examples.orders.Placed", placedJSON},
		"last part, another serializer":   {99, "order.placed", placed, asHex, "", ""},
		"last part of several":            {2, "order.paid", nil, asHex, "", `""`},
		"class in an outer class":         {2, "com.example.CartEvents$Paid", nil, asProto, "shop.Paid", `{}`},
		"class in a class":                {2, "com.example.CartEvents$Cart$Line_Item", []byte{8, 7}, asProto, "shop.Cart.Line_Item", `{"pieces":"7"}`},
		"class in a file of its own":      {9, "one.Line_Item", []byte{8, 7}, asProto, "one.Line_Item", `{"pieces":"7"}`},
		"class in another outer class":    {2, "SameOuterClass$Same", nil, asProto, "Same", `{}`},
		"unknown field":                   {2, "annals.examples.orders.Cancelled", placed, asHex, "", ""},
		"messages in a message":           {2, "shop.Cart", []byte{10, 2, 8, 7, 10, 0}, asProto, "shop.Cart", `{"lines":[{"pieces":"7"},{}]}`},
		"unknown field in a message":      {2, "shop.Cart", []byte{10, 2, 8, 7, 10, 2, 16, 7}, asHex, "", ""},
		"not a message":                   {2, "annals.examples.orders.Placed", []byte{0xff}, asHex, "", `"ff"`},
		"unknown name":                    {2, "annals.examples.orders.Shipped", nil, asHex, "", `""`},
		"no name":                         {2, "", nil, asHex, "", `""`},
		"a message in a message":          {2, "google.protobuf.Any", encode(inside), asProto, "google.protobuf.Any", `{"@type":"type.googleapis.com/annals.examples.orders.Cancelled","reason":"\u003cb\u003e"}`},
		"an unknown message in a message": {2, "google.protobuf.Any", encode(&anypb.Any{TypeUrl: "x/y"}), asHex, "", ""},
	} {
		s := shower{messages: messagesIn(files)}.show(annals.Payload{SerializerID: c.serializer, Manifest: c.manifest, Data: c.data}, nil)
		if s.Form != c.form || s.Message != c.message || c.value != "" && string(s.Value) != c.value && string(s.Value) != `{"@type":"type.googleapis.com/annals.examples.orders.Cancelled","reason":"<b>"}` {
			t.Errorf("%s: %s %q %s", name, s.Form, s.Message, s.Value)
		}
	}
	// What the behavior decodes is shown where the name of the message is a guess.
	decode := func(annals.Payload) (any, error) { return "decoded", nil }
	for manifest, form := range map[string]string{"order.placed": asDecoded, "annals.examples.orders.Placed": asProto} {
		if s := (shower{messages: messagesIn(files)}).show(annals.Payload{SerializerID: 2, Manifest: manifest, Data: placed}, decode); s.Form != form {
			t.Errorf("%s with a behavior: %s", manifest, s.Form)
		}
	}
	if messagesIn(protoregistry.GlobalFiles).exact["annals.examples.orders.Paid"] == nil {
		t.Error("the linked messages are not found")
	}
}

// The file and the names of --descriptors and --message are checked.
func TestPayloadFlags(t *testing.T) {
	t.Parallel()
	write := func(name string, m proto.Message) string {
		data, err := proto.Marshal(m)
		path := filepath.Join(t.TempDir(), name)
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("orders.pb", descriptors(t))
	lacking := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{Name: new("a.proto"), Dependency: []string{"b.proto"}}}}
	for _, c := range []struct {
		args  []string
		fails bool
	}{
		{[]string{"--descriptors", good}, false},
		{[]string{"--descriptors", good, "--message", "p=annals.examples.orders.Placed,q=shop.Paid"}, false},
		{[]string{"--descriptors", good, "--message", "p=none"}, true},
		{[]string{"--message", "p=annals.examples.orders.Placed"}, true},
		{[]string{"--descriptors", good + ".none"}, true},
		{[]string{"--descriptors", write("empty.pb", &descriptorpb.FileDescriptorSet{})}, true},
		{[]string{"--descriptors", write("lacking.pb", lacking)}, true},
	} {
		command := &cobra.Command{}
		p := newPayloadFlags(command)
		if err := command.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		w, err := p.shower(&answer{options: &options{}})
		if (err != nil) != c.fails {
			t.Errorf("%q: %v", c.args, err)
		}
		if err == nil && len(c.args) > 2 {
			if s := w.show(annals.Payload{SerializerID: 70, Manifest: "p", Data: []byte{10, 1, 'a'}}, nil); string(s.Value) != `{"customer":"a"}` {
				t.Errorf("%q: %s %s", c.args, s.Form, s.Value)
			}
		}
	}
}

// Whatever is stored, a descriptor makes JSON of it, or nothing.
func FuzzMessages(f *testing.F) {
	files, err := protodesc.NewFiles(descriptors(f))
	if err != nil {
		f.Fatal(err)
	}
	m := messagesIn(files)
	f.Add("annals.examples.orders.Placed", []byte{10, 1, 'a'})
	f.Add("google.protobuf.Any", []byte{10, 3, 'a', '/', 'b'})
	f.Fuzz(func(t *testing.T, manifest string, data []byte) {
		for _, guess := range []bool{false, true} {
			if value, message := m.of(annals.Payload{SerializerID: 2, Manifest: manifest, Data: data}, guess); (value == nil) != (message == "") || value != nil && compact(value) == nil {
				t.Errorf("%s is %s", message, value)
			}
		}
	})
}
