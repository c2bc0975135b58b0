package lean

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/aws/smithy-go"
)

// encoder writes inputs as JSON, with the bytes that the SDK's own encoder writes. It has the methods for the kinds of values that inputs of requests for items
// have.
type encoder struct {
	smithy.ShapeSerializer
	text []byte
	open []byte // what ends each struct, map or list that has begun
	key  bool   // the text ends with a key
}

var encoders = sync.Pool{New: func() any { return new(encoder) }}

// keptText is the most text for which an encoder keeps its memory.
const keptText = 64 << 10

// encode returns in as JSON.
func encode(in smithy.Serializable) []byte {
	e := encoders.Get().(*encoder)
	e.text, e.open, e.key = e.text[:0], e.open[:0], false
	in.Serialize(e)
	text := slices.Clone(e.text)
	if cap(e.text) <= keptText {
		encoders.Put(e)
	}
	return text
}

// value begins a value, which in a struct has the name of its member.
func (e *encoder) value(s *smithy.Schema) {
	switch {
	case e.key, len(e.open) == 0:
		e.key = false
	case e.open[len(e.open)-1] == '}':
		e.name(s)
	default:
		e.next()
	}
}

func (e *encoder) next() {
	if last := e.text[len(e.text)-1]; last != '{' && last != '[' {
		e.text = append(e.text, ',')
	}
}

// name writes the name of a member, which has letters only.
func (e *encoder) name(s *smithy.Schema) {
	e.next()
	e.text = append(append(append(e.text, '"'), s.MemberName()...), '"', ':')
}

func (e *encoder) begin(s *smithy.Schema, first, last byte) {
	e.value(s)
	e.text, e.open = append(e.text, first), append(e.open, last)
}

func (e *encoder) end() {
	last := len(e.open) - 1
	e.text, e.open = append(e.text, e.open[last]), e.open[:last]
}

func (e *encoder) WriteKey(_ *smithy.Schema, key string) {
	e.next()
	e.text = append(appendQuoted(e.text, key), ':')
	e.key = true
}

func (e *encoder) WriteStruct(s *smithy.Schema) { e.begin(s, '{', '}') }
func (e *encoder) CloseStruct()                 { e.end() }
func (e *encoder) WriteMap(s *smithy.Schema)    { e.begin(s, '{', '}') }
func (e *encoder) CloseMap()                    { e.end() }
func (e *encoder) WriteList(s *smithy.Schema)   { e.begin(s, '[', ']') }
func (e *encoder) CloseList()                   { e.end() }
func (e *encoder) CloseUnion()                  { e.end() }

func (e *encoder) WriteUnion(s, member *smithy.Schema) {
	e.begin(s, '{', '}')
	e.name(member)
	e.key = true
}

func (e *encoder) WriteBool(s *smithy.Schema, v bool) {
	e.value(s)
	e.text = strconv.AppendBool(e.text, v)
}

func (e *encoder) WriteInt32(s *smithy.Schema, v int32) {
	e.value(s)
	e.text = strconv.AppendInt(e.text, int64(v), 10)
}

func (e *encoder) WriteString(s *smithy.Schema, v string) {
	e.value(s)
	e.text = appendQuoted(e.text, v)
}

func (e *encoder) WriteBlob(s *smithy.Schema, v []byte) {
	e.value(s)
	if v == nil {
		e.text = append(e.text, "null"...)
		return
	}
	e.text = append(base64.StdEncoding.AppendEncode(append(e.text, '"'), v), '"')
}

// appendQuoted appends s as a JSON string. What is not UTF-8 becomes U+FFFD.
func appendQuoted(text []byte, s string) []byte {
	text = append(text, '"')
	done := 0
	for i := 0; i < len(s); i++ {
		if plain[s[i]] {
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r >= utf8.RuneSelf && r != '\u2028' && r != '\u2029' && r != utf8.RuneError {
			i += size - 1
			continue
		}
		text, done = append(text, s[done:i]...), i+size
		switch r {
		case '"', '\\':
			text = append(text, '\\', byte(r))
		case '\n':
			text = append(text, `\n`...)
		case '\r':
			text = append(text, `\r`...)
		case '\t':
			text = append(text, `\t`...)
		case utf8.RuneError:
			text = utf8.AppendRune(text, r)
		default:
			text = fmt.Appendf(text, `\u%04x`, r)
		}
		i = done - 1
	}
	return append(append(text, s[done:]...), '"')
}

// plain says which bytes stay as they are in a JSON string.
var plain = func() (plain [256]bool) {
	for c := byte(' '); c < 0x7f; c++ {
		plain[c] = c != '"' && c != '\\'
	}
	return plain
}()
