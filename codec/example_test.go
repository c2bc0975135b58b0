package codec_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
)

// Renamed is an event. It had one name in its first version.
type Renamed struct{ First, Last string }

type renamedV1 struct{ Name string }

var renamed = codec.JSON("renamed#2",
	codec.Was("renamed", func(v renamedV1) (Renamed, error) {
		first, last, ok := strings.Cut(v.Name, " ")
		if !ok {
			return Renamed{}, errors.New("one name only")
		}
		return Renamed{first, last}, nil
	}))

func ExampleWas() {
	old := annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "renamed", Data: []byte(`{"Name":"Ada Lovelace"}`)}
	v, err := renamed.Decode(old)
	fmt.Printf("%+v %v\n", v, err)
	p, err := renamed.Encode(v)
	fmt.Println(p.Manifest, string(p.Data), err)
	// Output:
	// {First:Ada Last:Lovelace} <nil>
	// renamed#2 {"First":"Ada","Last":"Lovelace"} <nil>
}
