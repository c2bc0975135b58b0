//go:build !goexperiment.jsonv2

package codec

import (
	"encoding/json"
	"unicode/utf8"
)

// marshalJSON is json.Marshal, and refuses a json.RawMessage that is not valid UTF-8. In other strings bytes are replaced, see replaced.
func marshalJSON(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err == nil && !utf8.Valid(data) {
		return nil, notUTF8
	}
	return data, err
}
