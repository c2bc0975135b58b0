package operate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// difference is a place in two JSON values where they differ.
type difference struct {
	Path   string          `json:"path"` // a JSON pointer (RFC 6901) but for escapes
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

func (d difference) text() string {
	path := name(d.Path)
	if path == "" {
		path = "the state"
	}
	switch {
	case d.Before == nil:
		return fmt.Sprintf("+ %s: %s", path, line(string(d.After), 200))
	case d.After == nil:
		return fmt.Sprintf("- %s: %s", path, line(string(d.Before), 200))
	}
	return fmt.Sprintf("~ %s: %s → %s", path, line(string(d.Before), 200), line(string(d.After), 200))
}

// differences compares two JSON values. Elements of arrays are compared by their place.
func differences(before, after json.RawMessage) []difference {
	var all []difference
	compare("", parsed(before), parsed(after), &all)
	return all
}

// parsed keeps the digits of numbers.
func parsed(text json.RawMessage) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

func compare(path string, before, after any, all *[]difference) {
	switch before := before.(type) {
	case map[string]any:
		if after, ok := after.(map[string]any); ok {
			keys := slices.Sorted(maps.Keys(before))
			for k := range after {
				if _, ok := before[k]; !ok {
					keys = append(keys, k)
				}
			}
			slices.Sort(keys)
			for _, k := range keys {
				member(path+"/"+k, before, after, k, all)
			}
			return
		}
	case []any:
		if after, ok := after.([]any); ok {
			for i := range max(len(before), len(after)) {
				at := fmt.Sprintf("%s/%d", path, i)
				switch {
				case i >= len(before):
					*all = append(*all, difference{at, nil, unescaped(after[i])})
				case i >= len(after):
					*all = append(*all, difference{at, unescaped(before[i]), nil})
				default:
					compare(at, before[i], after[i], all)
				}
			}
			return
		}
	}
	if !reflect.DeepEqual(before, after) {
		*all = append(*all, difference{path, unescaped(before), unescaped(after)})
	}
}

// member compares the members k of two objects.
func member(path string, before, after map[string]any, k string, all *[]difference) {
	b, was := before[k]
	a, is := after[k]
	switch {
	case !was:
		*all = append(*all, difference{path, nil, unescaped(a)})
	case !is:
		*all = append(*all, difference{path, unescaped(b), nil})
	default:
		compare(path, b, a, all)
	}
}
