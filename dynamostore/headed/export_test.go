package headed

import "encoding/json"

// Members returns the members that a payload has for this package.
func Members(data []byte) (map[string]json.RawMessage, bool) {
	all, ok := members(nil, data)
	found := map[string]json.RawMessage{}
	for _, m := range all {
		found[string(m.name)] = valueOf(all, string(m.name))
	}
	return found, ok
}
