package operate

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/codec/cborcodec"
)

// cborSerializer is the serializer id of package cborcodec.
const cborSerializer = 33

// mostShown is the size of the largest payload, in bytes, that is shown among others.
const mostShown = 64 << 10

// How the value of a payload is shown.
const (
	asJSON    = "json"     // as it is stored
	asCBOR    = "cbor"     // as JSON, or as a text in the diagnostic notation of CBOR
	asProto   = "protobuf" // as JSON, by a descriptor
	asDecoded = "decoded"  // as JSON of what the behavior's codec makes of it
	asHex     = "hex"      // a text
	asHidden  = "hidden"   // not at all
)

// shown is a payload as it is shown.
type shown struct {
	Serializer int32           `json:"serializer"`
	Manifest   string          `json:"manifest"`
	Bytes      int             `json:"bytes"`
	Form       string          `json:"form"`
	Message    string          `json:"message,omitempty"` // the full name of the protobuf message
	Value      json.RawMessage `json:"value,omitempty"`   // JSON without spaces
	Cut        bool            `json:"cut,omitempty"`     // the value is too long and is left out, or cut where it is hex
}

// shower makes payloads visible.
type shower struct {
	hide, raw bool
	whole     bool // payloads of any size
	messages  *messages
}

// show is p as it is shown. decode is what the behavior makes of it; it may be nil.
func (w shower) show(p annals.Payload, decode func(annals.Payload) (any, error)) *shown {
	s := &shown{Serializer: p.SerializerID, Manifest: p.Manifest, Bytes: len(p.Data)}
	switch {
	case w.hide:
		s.Form = asHidden
		return s
	case w.raw:
		s.hex(p.Data, w.whole)
		return s
	case len(p.Data) > mostShown && !w.whole: // it is not decoded to be left out
		switch p.SerializerID {
		case codec.JSONSerializer:
			s.Form, s.Cut = asJSON, true
		case cborSerializer:
			s.Form, s.Cut = asCBOR, true
		default:
			s.hex(p.Data, false)
		}
		return s
	}
	value := storedJSON(p)
	if s.Form = asJSON; value == nil {
		value, s.Form = storedCBOR(p), asCBOR
	}
	if value == nil {
		value, s.Message = w.messages.of(p, false)
		s.Form = asProto
	}
	if value == nil && decode != nil {
		value, s.Form = decoded(p, decode), asDecoded
	}
	if value == nil {
		value, s.Message = w.messages.of(p, true)
		s.Form = asProto
	}
	switch {
	case value == nil:
		s.hex(p.Data, w.whole)
	case len(value) > mostShown && !w.whole:
		s.Cut = true
	default:
		s.Value = value
	}
	return s
}

// hex shows data as hex, and without whole the first part of it only.
func (s *shown) hex(data []byte, whole bool) {
	const most = 1 << 10
	if s.Form = asHex; len(data) > most && !whole {
		data, s.Cut = data[:most], true
	}
	s.Value, _ = json.Marshal(hex.EncodeToString(data))
}

// storedJSON is the JSON of p, as it was before it was compressed; nil when it is none.
func storedJSON(p annals.Payload) json.RawMessage {
	value := json.RawMessage(p.Data)
	switch {
	case p.SerializerID == codec.JSONSerializer:
		inflated, err := codec.JSON[json.RawMessage](p.Manifest).Decode(p)
		if err != nil {
			return nil
		}
		value = inflated
	case !bytes.HasPrefix(value, []byte("{")) && !bytes.HasPrefix(value, []byte("[")):
		return nil // a number or a word would be JSON too
	}
	return compact(value)
}

// compact is JSON without spaces, nil when it is none.
func compact(value []byte) json.RawMessage {
	var b bytes.Buffer
	if !utf8.Valid(value) || json.Compact(&b, value) != nil {
		return nil
	}
	return b.Bytes()
}

// toJSON reads CBOR that can be JSON: integers keep all of their digits.
var toJSON, _ = cbor.DecOptions{DefaultMapType: nil, IntDec: cbor.IntDecConvertNone, BigIntDec: cbor.BigIntDecodePointer, MaxNestedLevels: 1000}.DecMode()

// storedCBOR is the CBOR of p as JSON, or as a text in diagnostic notation; nil when it is none.
func storedCBOR(p annals.Payload) json.RawMessage {
	if p.SerializerID != cborSerializer {
		return nil
	}
	data, err := cborcodec.Of[cbor.RawMessage](p.Manifest).Decode(p) // it may be compressed
	if err != nil {
		return nil
	}
	var v any
	if toJSON.Unmarshal(data, &v) == nil {
		if v, err := jsonOf(v); err == nil {
			if text := unescaped(v); text != nil {
				return text
			}
		}
	}
	if text, err := cbor.Diagnose(data); err == nil {
		return unescaped(text)
	}
	return nil
}

// unescaped is the JSON of v without the escapes for HTML, nil when v has none.
func unescaped(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return nil
	}
	return compact(b.Bytes())
}

// errNotJSON ends jsonOf.
var errNotJSON = errors.New("not JSON")

// jsonOf is a decoded value whose maps have texts as keys.
func jsonOf(v any) (any, error) {
	switch v := v.(type) {
	case map[any]any:
		object := make(map[string]any, len(v))
		for k, value := range v {
			key, ok := k.(string)
			if !ok {
				return nil, errNotJSON
			}
			inner, err := jsonOf(value)
			if err != nil {
				return nil, err
			}
			object[key] = inner
		}
		return object, nil
	case []any:
		for i := range v {
			inner, err := jsonOf(v[i])
			if err != nil {
				return nil, err
			}
			v[i] = inner
		}
	case []byte, cbor.ByteString, cbor.Tag, cbor.SimpleValue:
		return nil, errNotJSON
	}
	return v, nil
}

// decoded is the JSON of what decode makes of p, nil when that fails.
func decoded(p annals.Payload, decode func(annals.Payload) (any, error)) (value json.RawMessage) {
	defer func() {
		if recover() != nil { // a codec of the program has a defect
			value = nil
		}
	}()
	v, err := decode(p)
	if err != nil {
		return nil
	}
	return valueJSON(v)
}

// valueJSON is a Go value as JSON, nil when it has none.
func valueJSON(v any) json.RawMessage {
	m, ok := v.(proto.Message)
	if !ok {
		return unescaped(v)
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil
	}
	return compact(text)
}

// text is the value in one line of at most most characters.
func (s *shown) text(most int) string {
	switch {
	case s == nil:
		return "-"
	case s.Form == asHidden:
		return fmt.Sprintf("hidden (%d bytes)", s.Bytes)
	case s.Form == asHex:
		var value string
		_ = json.Unmarshal(s.Value, &value)
		return fmt.Sprintf("%d bytes, serializer %d: %s", s.Bytes, s.Serializer, line(value, most))
	case s.Cut:
		return fmt.Sprintf("%d bytes, too long to show here", s.Bytes)
	}
	return line(string(s.Value), most)
}

// print prints the whole value, JSON in several lines.
func (s *shown) print(w io.Writer, indent string) {
	var b bytes.Buffer
	if s.Form == asHidden || s.Form == asHex || json.Indent(&b, s.Value, indent, "  ") != nil {
		fmt.Fprintf(w, "%s%s\n", indent, s.text(len(s.Value)))
		return
	}
	fmt.Fprintf(w, "%s%s\n", indent, clean(b.String()))
}
