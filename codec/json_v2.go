//go:build goexperiment.jsonv2

package codec

import (
	"encoding/json"
	"encoding/json/jsontext"
	jsonv2 "encoding/json/v2"
	"unicode/utf8"
)

var (
	strict = jsonv2.JoinOptions(json.DefaultOptionsV1(), jsontext.AllowInvalidUTF8(false))
	// without writes an empty string for what a MarshalJSON method would write, such as that of json.RawMessage.
	without = jsonv2.WithMarshalers(jsonv2.MarshalToFunc(func(to *jsontext.Encoder, _ json.Marshaler) error { return to.WriteToken(jsontext.String("")) }))
)

// marshalJSON is json.Marshal, but refuses strings that are not valid UTF-8, where json.Marshal replaces bytes.
func marshalJSON(v any) ([]byte, error) {
	data, err := jsonv2.Marshal(v, strict)
	if err == nil {
		return data, nil
	}
	if data, err = json.Marshal(v); err != nil {
		return nil, err
	}
	// What a MarshalJSON method wrote is in data as it was. It can have the escape of half a surrogate pair, which is valid, and which strict refuses.
	if _, err := jsonv2.Marshal(v, strict, without); err != nil || !utf8.Valid(data) {
		return nil, notUTF8
	}
	return data, nil
}
