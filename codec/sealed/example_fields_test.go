package sealed_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/codec/sealed"
	"github.com/annals-go/annals/memstore"
)

// Ordered is an event of which the address is personal, and the rest can be read by everybody.
type Ordered struct {
	Item    string
	Cents   int
	Address Address
}

// Address belongs to a customer.
type Address struct{ CustomerID, Text string }

// orderedCodec stores Ordered as JSON in which the address is sealed.
type orderedCodec struct {
	event   codec.Codec[storedOrdered]
	address codec.Codec[Address]
}

// storedOrdered is the stored form of Ordered.
type storedOrdered struct {
	Item    string
	Cents   int
	Address annals.Payload
}

func (c orderedCodec) Encode(e Ordered) (annals.Payload, error) {
	address, err := c.address.Encode(e.Address)
	if err != nil {
		return annals.Payload{}, err
	}
	return c.event.Encode(storedOrdered{e.Item, e.Cents, address})
}

func (c orderedCodec) Decode(p annals.Payload) (Ordered, error) {
	s, err := c.event.Decode(p)
	if err != nil {
		return Ordered{}, err
	}
	address, err := c.address.Decode(s.Address)
	return Ordered{s.Item, s.Cents, address}, err
}

func ExamplePayloads_oneField() {
	ctx := context.Background()
	master, err := sealed.AES(make([]byte, 32)) // a program reads its key from a safe place
	if err != nil {
		fmt.Println(err)
		return
	}
	keys, err := sealed.NewKeys(memstore.New(), master, sealed.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ordered := orderedCodec{codec.JSON[storedOrdered]("ordered"), sealed.Payloads(codec.JSON[Address]("address"), keys,
		func(a Address) string { return a.CustomerID },
		func(subject string) Address { return Address{subject, "(forgotten)"} })}

	p, err := ordered.Encode(Ordered{"pen", 120, Address{"7", "Ada, Marylebone"}})
	fmt.Println(strings.HasPrefix(string(p.Data), `{"Item":"pen","Cents":120,`), strings.Contains(string(p.Data), "Ada"), err)
	fmt.Println(ordered.Decode(p))
	fmt.Println(keys.Destroy(ctx, "7"))
	fmt.Println(ordered.Decode(p))
	// Output:
	// true false <nil>
	// {pen 120 {7 Ada, Marylebone}} <nil>
	// <nil>
	// {pen 120 {7 (forgotten)}} <nil>
}
