//go:build goexperiment.jsonv2

package codec

import (
	"encoding/json"
	"encoding/json/jsontext"
	jsonv2 "encoding/json/v2"
)

// marshalJSON is json.Marshal, but refuses strings that are not valid UTF-8, where json.Marshal replaces bytes.
func marshalJSON(v any) ([]byte, error) {
	data, err := jsonv2.Marshal(v, json.DefaultOptionsV1(), jsontext.AllowInvalidUTF8(false))
	if err == nil {
		return data, nil
	}
	if _, other := json.Marshal(v); other != nil {
		return nil, other
	}
	return nil, notUTF8
}
