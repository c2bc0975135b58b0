package lean

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"sync"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// decoder reads the items of an answer. It reads what the service usually sends. At anything else it gives up, and the SDK decodes the whole answer: so the
// SDK alone decides what is refused.
type decoder struct {
	text   []byte
	at     int // where the next token begins, or the spaces before it
	gaveUp bool
	depth  int    // of lists and maps
	plain  []byte // a string without its escapes
	rest   []byte
	names  [64]attribute
}

// attribute is a name, and the newest short text of an attribute of this name. Most items have the names, and some of the texts, of the item before; these need
// no new memory.
type attribute struct{ name, text string }

const (
	shortText = 64 // bytes
	deepest   = 64 // lists and maps in each other; the service stores 32
)

var decoders = sync.Pool{New: func() any { return new(decoder) }}

// itemsOf decodes the items of an answer into out. It returns the rest of the answer, which is for the SDK: all of it when out has no items, or the decoder has given
// up. The rest is valid until d is used again.
func (d *decoder) itemsOf(answer []byte, out any) (rest []byte) {
	d.text, d.at, d.gaveUp, d.depth, d.rest = answer, 0, false, 0, d.rest[:0]
	switch out := out.(type) {
	case *dynamodb.QueryOutput:
		d.members("Items", func() { out.Items = d.items(nil) })
	case *dynamodb.ScanOutput:
		d.members("Items", func() { out.Items = d.items(nil) })
	case *dynamodb.GetItemOutput:
		d.members("Item", func() { out.Item = d.item() })
	case *dynamodb.BatchGetItemOutput:
		d.members("Responses", func() { out.Responses = mapOf(d, d.items) })
	default:
		d.giveUp()
	}
	if d.text = nil; d.gaveUp {
		return answer
	}
	return d.rest
}

// giveUp moves to the end of the text, where nothing is found.
func (d *decoder) giveUp() { d.at, d.gaveUp = len(d.text), true }

// members reads the member of that name, and copies the others to rest.
func (d *decoder) members(name string, read func()) {
	d.expect('{')
	d.rest = append(d.rest, '{')
	for first := true; !d.gaveUp && !d.found('}'); first = false {
		if !first {
			d.expect(',')
		}
		d.spaces()
		start := d.at
		wanted := string(d.string()) == name
		if d.expect(':'); wanted && !d.literal("null") { // which the SDK ignores
			read()
			continue
		}
		d.skip()
		if len(d.rest) > 1 {
			d.rest = append(d.rest, ',')
		}
		d.rest = append(d.rest, d.text[start:d.at]...)
	}
	d.rest = append(d.rest, '}')
}

// skip moves to the end of a value. The SDK checks its syntax.
func (d *decoder) skip() {
	for depth := 0; d.at < len(d.text); {
		switch c := d.text[d.at]; c {
		case '"':
			d.string()
			continue
		case '{', '[':
			depth++
		case ',', '}', ']':
			if depth == 0 {
				return
			}
			if c != ',' {
				depth--
			}
		}
		d.at++
	}
	d.giveUp()
}

// mapOf reads a map. read gets the name of each value.
func mapOf[V any](d *decoder, read func(*attribute) V) map[string]V {
	all := map[string]V{}
	d.expect('{')
	d.deeper()
	for !d.gaveUp && !d.found('}') {
		if len(all) > 0 {
			d.expect(',')
		}
		a := d.attribute()
		name := a.name // reading the value may change a
		d.expect(':')
		all[name] = read(a)
	}
	d.depth--
	return all
}

// listOf reads a list.
func listOf[E any](d *decoder, read func() E) []E {
	all := []E{}
	d.expect('[')
	d.deeper()
	for !d.gaveUp && !d.found(']') {
		if len(all) > 0 {
			d.expect(',')
		}
		all = append(all, read())
	}
	d.depth--
	return all
}

func (d *decoder) deeper() {
	if d.depth++; d.depth > deepest {
		d.giveUp()
	}
}

func (d *decoder) items(*attribute) []map[string]types.AttributeValue { return listOf(d, d.item) }

func (d *decoder) item() map[string]types.AttributeValue { return mapOf(d, d.value) }

// value reads an attribute, or an element of a list when a is nil.
func (d *decoder) value(a *attribute) (v types.AttributeValue) {
	d.expect('{')
	kind := d.string()
	d.expect(':')
	switch string(kind) {
	case "S":
		v = &types.AttributeValueMemberS{Value: d.textOf(a)}
	case "N":
		v = &types.AttributeValueMemberN{Value: d.textOf(a)}
	case "B":
		value, err := base64.StdEncoding.AppendDecode([]byte{}, d.string())
		if err != nil {
			d.giveUp()
		}
		v = &types.AttributeValueMemberB{Value: value}
	case "BOOL":
		yes := d.literal("true")
		if !yes && !d.literal("false") {
			d.giveUp()
		}
		v = &types.AttributeValueMemberBOOL{Value: yes}
	case "M":
		v = &types.AttributeValueMemberM{Value: d.item()}
	case "L":
		v = &types.AttributeValueMemberL{Value: listOf(d, func() types.AttributeValue { return d.value(nil) })}
	case "SS":
		v = &types.AttributeValueMemberSS{Value: listOf(d, func() string { return d.textOf(nil) })}
	default: // the others are rare
		d.giveUp()
	}
	d.expect('}')
	return v
}

// attribute reads a name.
func (d *decoder) attribute() *attribute {
	name := d.string()
	if len(name) == 0 || len(name) > shortText {
		return &attribute{name: string(name)}
	}
	a := &d.names[(len(name)+5*int(name[0])+11*int(name[len(name)-1]))%len(d.names)]
	if a.name != string(name) {
		a.name = string(name)
	}
	return a
}

// textOf reads the text of a. a may be nil.
func (d *decoder) textOf(a *attribute) string {
	text := d.string()
	if a == nil || len(text) > shortText {
		return string(text)
	}
	if a.text != string(text) {
		a.text = string(text)
	}
	return a.text
}

// escapes are the characters that follow a backslash, and what they stand for.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'u': 'u'}

// string reads a string, which is valid until the next one is read.
func (d *decoder) string() []byte {
	d.expect('"')
	start := d.at
	d.toSpecial()
	if d.at < len(d.text) && d.text[d.at] == '"' {
		d.at++
		return d.text[start : d.at-1]
	}
	d.plain = append(d.plain[:0], d.text[start:d.at]...)
	usual := true
	for d.at+1 < len(d.text) && d.text[d.at] == '\\' && escapes[d.text[d.at+1]] != 0 {
		next := d.text[d.at+1]
		usual = usual && next != 'u'
		d.at += 2
		from := d.at
		d.toSpecial()
		d.plain = append(append(d.plain, escapes[next]), d.text[from:d.at]...)
	}
	if d.at == len(d.text) || d.text[d.at] != '"' {
		d.giveUp()
		return nil
	}
	if d.at++; usual && utf8.Valid(d.plain) {
		return d.plain
	}
	var text string
	if json.Unmarshal(d.text[start-1:d.at], &text) != nil {
		d.giveUp()
	}
	return append(d.plain[:0], text...)
}

// toSpecial moves to the next quote, backslash or control character, eight bytes at a time.
func (d *decoder) toSpecial() {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; d.at+8 <= len(d.text); d.at += 8 {
		v := binary.LittleEndian.Uint64(d.text[d.at:])
		quote, backslash := v^'"'*ones, v^'\\'*ones
		// The lowest high bit that is set is of the first byte of v that is below a space, or of the first zero in quote or backslash.
		if found := ((v-' '*ones)&^v | (quote-ones)&^quote | (backslash-ones)&^backslash) & highs; found != 0 {
			d.at += bits.TrailingZeros64(found) / 8
			return
		}
	}
	for d.at < len(d.text) && d.text[d.at] >= ' ' && d.text[d.at] != '"' && d.text[d.at] != '\\' {
		d.at++
	}
}

func (d *decoder) expect(c byte) {
	if !d.found(c) {
		d.giveUp()
	}
}

func (d *decoder) found(c byte) bool {
	if d.spaces(); d.at == len(d.text) || d.text[d.at] != c {
		return false
	}
	d.at++
	return true
}

func (d *decoder) literal(text string) bool {
	d.spaces()
	found := bytes.HasPrefix(d.text[d.at:], []byte(text))
	if found {
		d.at += len(text)
	}
	return found
}

func (d *decoder) spaces() {
	for d.at < len(d.text) && (d.text[d.at] == ' ' || d.text[d.at] == '\n' || d.text[d.at] == '\r' || d.text[d.at] == '\t') {
		d.at++
	}
}
