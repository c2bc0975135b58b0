package operate

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/annals-go/annals"
)

// protobufSerializer is the serializer id of package protocodec, and of Akka's ProtobufSerializer.
const protobufSerializer = 2

// messages are the protobuf messages that are known.
type messages struct {
	types *dynamicpb.Types
	exact map[string]protoreflect.MessageDescriptor // by full name, by the class that protoc makes for Java, and by the manifests of --message
	last  map[string]protoreflect.MessageDescriptor // by the last part of the name; nil where there are several
}

// messagesIn are the messages in files, nil when files is.
func messagesIn(files *protoregistry.Files) *messages {
	if files == nil {
		return nil
	}
	m := &messages{dynamicpb.NewTypes(files), map[string]protoreflect.MessageDescriptor{}, map[string]protoreflect.MessageDescriptor{}}
	files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		m.add(f.Messages(), javaPrefix(f))
		return true
	})
	return m
}

func (m *messages) add(all protoreflect.MessageDescriptors, java string) {
	for i := range all.Len() {
		d := all.Get(i)
		m.exact[string(d.FullName())] = d
		class := java + string(d.Name())
		if m.exact[class] == nil {
			m.exact[class] = d
		}
		short := lastPart(string(d.Name()))
		if _, twice := m.last[short]; twice {
			d = nil
		}
		m.last[short] = d
		m.add(all.Get(i).Messages(), class+"$")
	}
}

// javaPrefix is what comes before the name of a message in the name of its Java class.
func javaPrefix(f protoreflect.FileDescriptor) string {
	o, _ := f.Options().(*descriptorpb.FileOptions)
	prefix := string(f.Package())
	if o.GetJavaPackage() != "" {
		prefix = o.GetJavaPackage()
	}
	if prefix != "" {
		prefix += "."
	}
	if o.GetJavaMultipleFiles() {
		return prefix
	}
	outer := o.GetJavaOuterClassname()
	if outer == "" {
		base := strings.TrimSuffix(f.Path()[strings.LastIndex(f.Path(), "/")+1:], ".proto")
		for _, part := range strings.FieldsFunc(base, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			outer += strings.ToUpper(part[:1]) + part[1:]
		}
		if f.Messages().ByName(protoreflect.Name(outer)) != nil {
			outer += "OuterClass"
		}
	}
	return prefix + outer + "$"
}

// lastPart is the last part of a name, as names are compared that different languages write in their own way.
func lastPart(name string) string {
	name = name[strings.LastIndexAny(name, ".$/")+1:]
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// of is the JSON of p, and the name of its message; nil when none is known. Without guess the manifest must name the message.
func (m *messages) of(p annals.Payload, guess bool) (value json.RawMessage, message string) {
	if m == nil {
		return nil, ""
	}
	d := m.exact[p.Manifest]
	if guess {
		if d = m.last[lastPart(p.Manifest)]; p.SerializerID != protobufSerializer {
			d = nil
		}
	}
	if d == nil {
		return nil, ""
	}
	v := dynamicpb.NewMessage(d)
	if (proto.UnmarshalOptions{AllowPartial: true, Resolver: m.types}).Unmarshal(p.Data, v) != nil || !m.all(v) {
		return nil, "" // another message, or a later version of it: JSON would not have all of it
	}
	text, err := protojson.MarshalOptions{AllowPartial: true, Resolver: m.types}.Marshal(v)
	if err != nil {
		return nil, ""
	}
	return compact(text), string(d.FullName())
}

// all reports whether the descriptors have every field of v and of the messages in it.
func (m *messages) all(v protoreflect.Message) bool {
	return protorange.Options{Resolver: m.types}.Range(v, func(at protopath.Values) error {
		if inner, ok := at.Index(-1).Value.Interface().(protoreflect.Message); ok && len(inner.GetUnknown()) > 0 {
			return errors.New("an unknown field")
		}
		return nil
	}, nil) == nil
}

// payloadFlags are the flags of commands that show payloads.
type payloadFlags struct {
	raw         bool
	descriptors string
	names       map[string]string
}

func newPayloadFlags(c *cobra.Command) *payloadFlags {
	p := &payloadFlags{}
	f := c.Flags()
	f.BoolVar(&p.raw, "raw", false, "payloads as they are stored, in hexadecimal")
	f.StringVar(&p.descriptors, "descriptors", "", "file with protobuf descriptors, as protoc --include_imports --descriptor_set_out writes it")
	f.StringToStringVar(&p.names, "message", nil, "with --descriptors: MANIFEST=NAME of a protobuf message; may be repeated")
	return p
}

// open opens the store of k, whose payloads the shower shows.
func (p *payloadFlags) open(k *call) (annals.Store, shower, error) {
	w, err := p.shower(&k.answer)
	if err != nil {
		return nil, w, err
	}
	s, err := k.store()
	return s, w, err
}

// shower is that of a with the flags.
func (p *payloadFlags) shower(a *answer) (shower, error) {
	w := a.shower(p.raw)
	if p.descriptors != "" {
		text, err := os.ReadFile(p.descriptors)
		if err != nil {
			return w, usage("--descriptors: %s", line(err.Error(), 1000))
		}
		var set descriptorpb.FileDescriptorSet
		if err := proto.Unmarshal(text, &set); err != nil || len(set.GetFile()) == 0 {
			return w, usage("--descriptors: %s has no protobuf descriptors: protoc --include_imports --descriptor_set_out writes them", name(p.descriptors))
		}
		files, err := protodesc.NewFiles(&set)
		if err != nil {
			return w, usage("--descriptors: %s", line(err.Error(), 1000))
		}
		w.messages = messagesIn(files)
	}
	if w.messages != nil {
		w.messages = &messages{w.messages.types, maps.Clone(w.messages.exact), w.messages.last}
	}
	for manifest, message := range p.names {
		if w.messages == nil || w.messages.exact[message] == nil {
			return w, usage("--message: there is no message %s", name(message))
		}
		w.messages.exact[manifest] = w.messages.exact[message]
	}
	return w, nil
}
