package headed

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// member is a member of a JSON object.
type member struct {
	name  []byte // without quotes and escapes
	value []byte // a part of the object
}

// members appends the members of the JSON object in data to into, in their order; false for other data. json.Unmarshal finds the same
// members, but takes several times as long, and a load does this for each event.
func members(into []member, data []byte) ([]member, bool) {
	p := parser{data: data}
	if p.spaces(); !p.take('{') {
		return nil, false
	}
	for first := true; p.more(first, '}'); first = false {
		into = append(into, p.member(1))
	}
	p.spaces()
	return into, !p.wrong && p.at == len(data)
}

// valueOf returns the value of the last member of that name; nil when there is none.
func valueOf(all []member, name string) []byte {
	for _, m := range slices.Backward(all) {
		if string(m.name) == name {
			return m.value
		}
	}
	return nil
}

// textOf returns the text of a JSON value; false when the value is none.
func textOf(value []byte) ([]byte, bool) {
	if len(value) == 0 || value[0] != '"' {
		return nil, false
	}
	return unquoted(value), true
}

// unquoted returns the text of a JSON string.
func unquoted(quoted []byte) []byte {
	if text := quoted[1 : len(quoted)-1]; bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
		return text
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // no string that the parser has read is an error
	return []byte(s)
}

// parser reads JSON, and accepts what json.Valid does. After a fault nothing more is read.
type parser struct {
	data  []byte
	at    int  // the index of the next byte
	wrong bool // data is not valid
}

// fail records a fault.
func (p *parser) fail() { p.at, p.wrong = len(p.data), true }

// next returns the next byte; 0, which is a fault everywhere, when there is none.
func (p *parser) next() byte {
	if p.at == len(p.data) {
		return 0
	}
	return p.data[p.at]
}

// take reads the next byte if it is c.
func (p *parser) take(c byte) bool {
	if p.next() != c {
		return false
	}
	p.at++
	return true
}

func (p *parser) spaces() {
	for p.take(' ') || p.take('\n') || p.take('\t') || p.take('\r') {
	}
}

// more reports whether an array or object that ends with end has another element, and reads what is in front of it.
func (p *parser) more(first bool, end byte) bool {
	if p.spaces(); p.take(end) {
		return false
	}
	if !first && !p.take(',') {
		p.fail()
	}
	p.spaces()
	return !p.wrong
}

// deepest is how many arrays and objects encoding/json accepts within each other.
const deepest = 10_000

// value reads a value that is in depth arrays and objects.
func (p *parser) value(depth int) {
	switch c := p.next(); {
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
	case c == 't':
		p.literal("true")
	case c == 'f':
		p.literal("false")
	case c == 'n':
		p.literal("null")
	default:
		p.number()
	}
}

// member reads a member of an object. depth counts the object, too.
func (p *parser) member(depth int) member {
	begin := p.at
	p.text()
	name := p.data[begin:p.at]
	if p.spaces(); !p.take(':') {
		p.fail()
	}
	p.spaces()
	begin = p.at
	p.value(depth)
	if p.wrong {
		return member{}
	}
	return member{unquoted(name), p.data[begin:p.at:p.at]}
}

// text reads a string.
func (p *parser) text() {
	if !p.take('"') {
		p.fail()
		return
	}
	for !p.take('"') {
		at := p.at // in a register, because most bytes are read here
		for at < len(p.data) && p.data[at] >= ' ' && p.data[at] != '"' && p.data[at] != '\\' {
			at++
		}
		switch p.at = at; p.next() {
		case '"':
		case '\\':
			p.at++
			p.escaped()
		default:
			p.fail()
			return
		}
	}
}

// escaped reads what is behind a backslash.
func (p *parser) escaped() {
	if !p.take('u') {
		p.one(`"\/bfnrt`)
		return
	}
	for range 4 {
		p.one("0123456789abcdefABCDEF")
	}
}

// one reads a byte of set.
func (p *parser) one(set string) {
	if strings.IndexByte(set, p.next()) < 0 {
		p.fail()
		return
	}
	p.at++
}

func (p *parser) literal(text string) {
	if !bytes.HasPrefix(p.data[p.at:], []byte(text)) {
		p.fail()
		return
	}
	p.at += len(text)
}

func (p *parser) number() {
	p.take('-')
	if !p.take('0') {
		p.digits()
	}
	if p.take('.') {
		p.digits()
	}
	if p.take('e') || p.take('E') {
		if !p.take('+') {
			p.take('-')
		}
		p.digits()
	}
}

// digits reads one digit or more.
func (p *parser) digits() {
	begin := p.at
	for c := p.next(); '0' <= c && c <= '9'; c = p.next() {
		p.at++
	}
	if p.at == begin {
		p.fail()
	}
}
