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
	codec.Was(codec.JSON[renamedV1]("renamed"), func(v renamedV1) (Renamed, error) {
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

// During a rollout the release before reads and writes the former version. So the first release reads both and writes the former
// one, and the second writes the new one.
func ExampleWas_rollout() {
	first := codec.JSON("renamed",
		codec.Was(codec.JSON[Renamed]("renamed#2"), func(v Renamed) (renamedV1, error) {
			return renamedV1{v.First + " " + v.Last}, nil
		}))
	second := renamed

	p, err := first.Encode(renamedV1{"Ada Lovelace"})
	fmt.Println(p.Manifest, err)
	fmt.Println(second.Decode(p))
	p, err = second.Encode(Renamed{"Ada", "Lovelace"})
	fmt.Println(p.Manifest, err)
	fmt.Println(first.Decode(p))
	// Output:
	// renamed <nil>
	// {Ada Lovelace} <nil>
	// renamed#2 <nil>
	// {Ada Lovelace} <nil>
}

// Account is a state that another program writes too.
type Account struct {
	Cents int64 `json:"cents"`
}

// A state that another program has written keeps the members that Account does not have. The members seq_nr, version and last_updated_at are of
// the state as it was stored: the next state gets its own.
func ExampleKeeping() {
	// accounts keeps the member "currency", which Account does not have.
	accounts := codec.Keeping[Account]("account", "seq_nr", "version", "last_updated_at")
	state, err := accounts.Decode(annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "account",
		Data: []byte(`{"seq_nr":7,"version":7,"cents":500,"currency":"EUR"}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	state.Value.Cents += 300
	p, err := accounts.Encode(state)
	fmt.Println(string(p.Data), err)
	// Output: {"cents":800,"currency":"EUR"} <nil>
}
