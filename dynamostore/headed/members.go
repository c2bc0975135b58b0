package headed

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// members returns the members of the JSON object in data; false for other data. The values are parts of data. The result is that of json.Unmarshal
// into a map of json.RawMessage, which takes several times as long. A load does this for each event.
func members(data []byte) (map[string]json.RawMessage, bool) {
	if !json.Valid(data) {
		return nil, false
	}
	at := spaces(data, 0)
	if data[at] != '{' {
		return nil, false
	}
	found := map[string]json.RawMessage{}
	for at = spaces(data, at+1); data[at] != '}'; {
		end := endOf(data, at)
		name, _ := unquoted(data[at:end])
		at = spaces(data, spaces(data, end)+1) // behind the colon
		end = endOf(data, at)
		found[name] = data[at:end:end]
		if at = spaces(data, end); data[at] == ',' {
			at = spaces(data, at+1)
		}
	}
	return found, true
}

// spaces returns the index of the first byte from at on that is no space.
func spaces(data []byte, at int) int {
	for data[at] == ' ' || data[at] == '\n' || data[at] == '\t' || data[at] == '\r' {
		at++
	}
	return at
}

// endOf returns the index behind the value that begins at an index of valid JSON.
func endOf(data []byte, at int) int {
	for depth := 0; ; at++ {
		switch data[at] {
		case '"':
			for at++; data[at] != '"'; at++ {
				if data[at] == '\\' {
					at++
				}
			}
			if depth == 0 {
				return at + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			} else if depth < 0 {
				return at // behind a number or a literal
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return at
			}
		}
	}
}

// unquoted returns the text of a JSON value; false when the value is none.
func unquoted(value json.RawMessage) (string, bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	if text := value[1 : len(value)-1]; bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
		return string(text), true
	}
	var s string
	return s, json.Unmarshal(value, &s) == nil
}
