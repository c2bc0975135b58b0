package sealed_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/codec/sealed"
	"github.com/annals-go/annals/memstore"
)

// CustomerRenamed is an event with personal data.
type CustomerRenamed struct{ CustomerID, Name string }

func Example() {
	ctx := context.Background()
	store := memstore.New()
	master, err := sealed.AES(make([]byte, 32)) // a program reads its key from a safe place
	if err != nil {
		fmt.Println(err)
		return
	}
	keys, err := sealed.NewKeys(store, master, sealed.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	renamed := sealed.Payloads(codec.JSON[CustomerRenamed]("renamed"), keys,
		func(e CustomerRenamed) string { return e.CustomerID },
		func(subject string) CustomerRenamed { return CustomerRenamed{subject, "(forgotten)"} })

	p, err := renamed.Encode(CustomerRenamed{"7", "Ada"})
	fmt.Println(p.Manifest, err)
	fmt.Println(renamed.Decode(p))

	fmt.Println(keys.Destroy(ctx, "7"))
	fmt.Println(renamed.Decode(p))
	_, err = renamed.Encode(CustomerRenamed{"7", "Ada"})
	fmt.Println(errors.Is(err, sealed.ErrForgotten))
	// Output:
	// renamed <nil>
	// {7 Ada} <nil>
	// <nil>
	// {7 (forgotten)} <nil>
	// true
}

// Ordered is an event of which the address is personal.
type Ordered struct {
	CustomerID, Item string
	Cents            int
	Address          string
}

func ExampleExcept() {
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
	ordered := sealed.Except(codec.JSON[Ordered]("ordered"), keys,
		func(e Ordered) string { return e.CustomerID },
		func(rest Ordered) Ordered { rest.Address = "(forgotten)"; return rest },
		"CustomerID", "Item", "Cents")

	p, err := ordered.Encode(Ordered{"7", "pen", 120, "Marylebone"})
	readable, _, _ := strings.Cut(string(p.Data), `:"AQ`)
	fmt.Println(readable, err)
	fmt.Println(ordered.Decode(p))
	fmt.Println(keys.Destroy(ctx, "7"))
	fmt.Println(ordered.Decode(p))
	// Output:
	// {"CustomerID":"7","Item":"pen","Cents":120,"_sealed" <nil>
	// {7 pen 120 Marylebone} <nil>
	// <nil>
	// {7 pen 120 (forgotten)} <nil>
}

func ExampleAES_file() {
	// master has the key in a file of 32 bytes, such as one that "openssl rand -out master.key 32" has made.
	master := func(name string) (sealed.Master, error) {
		key, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		return sealed.AES(key)
	}
	_, err := master("no such file")
	fmt.Println(errors.Is(err, os.ErrNotExist))
	// Output: true
}

func ExampleAES_environment() {
	// master has the key in an environment variable, such as "openssl rand -base64 32" prints it.
	master := func(name string) (sealed.Master, error) {
		key, err := base64.StdEncoding.DecodeString(os.Getenv(name))
		if err != nil {
			return nil, err
		}
		return sealed.AES(key)
	}
	_, err := master("NO_SUCH_VARIABLE")
	fmt.Println(err)
	// Output: sealed: master key 1 has 0 bytes, not 32
}

func ExampleKeys_Rewrap() {
	ctx := context.Background()
	store := memstore.New()
	before, after := make([]byte, 32), append(make([]byte, 31), 1)
	seal := func(keys ...[]byte) (*sealed.Keys, codec.Codec[CustomerRenamed], error) {
		master, err := sealed.AES(keys...)
		if err != nil {
			return nil, nil, err
		}
		k, err := sealed.NewKeys(store, master, sealed.Options{})
		return k, sealed.Payloads(codec.JSON[CustomerRenamed]("renamed"), k, func(e CustomerRenamed) string { return e.CustomerID },
			func(string) CustomerRenamed { return CustomerRenamed{} }), err
	}
	_, renamed, err := seal(before)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := renamed.Encode(CustomerRenamed{"7", "Ada"})
	fmt.Println(err)

	// rewrap has all keys wrapped again, after all processes have been started with the new key first, and the old one after it.
	rewrap := func(keys *sealed.Keys) error {
		for id, err := range store.Query().IDs(ctx, "SubjectKey", "") {
			if err != nil {
				return err
			}
			if err := keys.Rewrap(ctx, id.EntityID()); err != nil {
				return err
			}
		}
		return nil
	}
	keys, _, err := seal(after, before)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rewrap(keys))

	_, renamed, err = seal(after)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(renamed.Decode(p))
	_, err = renamed.Decode(annals.Payload{SerializerID: sealed.Serializer, Manifest: "renamed"})
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
	// {7 Ada} <nil>
	// annals: open a payload: corrupt: sealed: it is cut or was changed
}
