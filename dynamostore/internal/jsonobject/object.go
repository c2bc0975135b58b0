// Package jsonobject reads the members of a JSON object, and adds members in front of them. What is there stays as it is, byte for byte.
package jsonobject

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Object is a JSON object, with members that were added.
type Object struct {
	data    []byte
	members []Member
	added   []byte
}

// Member is a member of an Object.
type Member struct {
	name  []byte // without quotes and escapes
	value []byte // a part of the object
}

// Few objects have more members than Usual, and few get more bytes of members than usualAdded.
const (
	Usual      = 8
	usualAdded = 192
)

// Parse returns the object in data; false for other data. few is memory for its members, as many as it has capacity for. json.Unmarshal finds the
// same members, but takes several times as long, and json.Valid alone takes longer.
func Parse(few []Member, data []byte) (Object, bool) {
	p := parser{data: data}
	if !p.take('{') {
		return Object{}, false
	}
	for first := true; p.more(first, '}'); first = false {
		few = append(few, p.member(1))
	}
	p.next()
	return Object{data: data, members: few}, !p.wrong && p.at == len(data)
}

// parser reads JSON, and accepts what json.Valid does. After a fault nothing more is read.
type parser struct {
	data  []byte
	at    int  // the index of the next byte
	wrong bool // data is not valid
}

// fail records a fault.
func (p *parser) fail() { p.at, p.wrong = len(p.data), true }

// next passes over spaces and returns the next byte; 0, which is a fault everywhere, when there is none.
func (p *parser) next() byte {
	for ; p.at < len(p.data); p.at++ {
		if c := p.data[p.at]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
	}
	return 0
}

// take reads the next byte if it is c.
func (p *parser) take(c byte) bool {
	if p.next() != c {
		return false
	}
	p.at++
	return true
}

// more reports whether an array or object that ends with end has another element, and reads what is in front of it.
func (p *parser) more(first bool, end byte) bool {
	if p.take(end) {
		return false
	}
	if !first && !p.take(',') {
		p.fail()
	}
	return !p.wrong
}

// deepest is how many arrays and objects encoding/json accepts within each other.
const deepest = 10_000

// value reads a value that is in depth arrays and objects.
func (p *parser) value(depth int) []byte {
	c, begin := p.next(), p.at
	switch {
	case c == '"':
		p.text()
	case c == '{' && depth < deepest:
		p.at++
		for first := true; p.more(first, '}'); first = false {
			p.member(depth + 1)
		}
	case c == '[' && depth < deepest:
		p.at++
		for first := true; p.more(first, ']'); first = false {
			p.value(depth + 1)
		}
	default:
		p.short()
	}
	return p.data[begin:p.at:p.at]
}

// member reads a member of an object. depth counts the object, too.
func (p *parser) member(depth int) Member {
	if p.next() != '"' {
		p.fail()
		return Member{}
	}
	name := p.value(depth)
	if !p.take(':') {
		p.fail()
	}
	value := p.value(depth)
	if p.wrong {
		return Member{}
	}
	return Member{unquoted(name), value}
}

// text reads a string.
func (p *parser) text() {
	begin, escapes := p.at, false
	for at := begin + 1; at < len(p.data); at++ {
		switch c := p.data[at]; {
		case c == '"':
			if p.at = at + 1; escapes && !json.Valid(p.data[begin:p.at]) {
				p.fail()
			}
			return
		case c == '\\':
			escapes = true
			at++
		case c < ' ':
			p.fail()
			return
		}
	}
	p.fail()
}

// short reads a number, true, false or null.
func (p *parser) short() {
	begin := p.at
	for p.at < len(p.data) && strings.IndexByte(",]} \n\t\r", p.data[p.at]) < 0 {
		p.at++
	}
	if !json.Valid(p.data[begin:p.at]) {
		p.fail()
	}
}

// unquoted returns the text of a JSON string.
func unquoted(quoted []byte) []byte {
	if text := quoted[1 : len(quoted)-1]; bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
		return text
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // it is valid
	return []byte(s)
}

// Member returns the value of the last member of that name that the object had when it was parsed; nil when there is none.
func (o *Object) Member(name string) []byte {
	for _, m := range slices.Backward(o.members) {
		if string(m.name) == name {
			return m.value
		}
	}
	return nil
}

// Text returns a member that is a text; false when there is none.
func (o *Object) Text(name string) ([]byte, bool) {
	value := o.Member(name)
	if len(value) == 0 || value[0] != '"' {
		return nil, false
	}
	return unquoted(value), true
}

// Object returns the member of that name that is an object itself. few is as in Parse.
func (o *Object) Object(few []Member, name string) (Object, bool) { return Parse(few, o.Member(name)) }

// Add adds a member, unless the object has it. value is JSON.
func (o *Object) Add(name, value string) {
	if o.Member(name) != nil {
		return
	}
	if o.added == nil {
		o.added = make([]byte, 0, usualAdded)
	}
	o.added = append(append(append(AppendText(o.added, name), ':'), value...), ',')
}

// Bytes returns the object with the members that were added.
func (o *Object) Bytes() []byte {
	if len(o.added) == 0 {
		return o.data
	}
	added := o.added
	if len(o.members) == 0 {
		added = added[:len(added)-1]
	}
	all := append(make([]byte, 0, len(o.data)+len(added)), '{')
	return append(append(all, added...), o.data[bytes.IndexByte(o.data, '{')+1:]...)
}

// Quote returns a text as JSON, as AppendText appends it.
func Quote(s string) string { return string(AppendText(make([]byte, 0, len(s)+2), s)) }

// AppendText appends a text as JSON.stringify of JavaScript and serde_json of Rust format it. encoding/json escapes more characters.
func AppendText(b []byte, s string) []byte {
	b = append(b, '"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c >= ' ':
			b = append(b, c)
		default:
			if at := strings.IndexByte("\b\f\n\r\t", c); at >= 0 {
				b = append(b, '\\', "bfnrt"[at])
			} else {
				b = fmt.Appendf(b, `\u%04x`, c)
			}
		}
	}
	return append(b, '"')
}
