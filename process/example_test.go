package process_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/process"
	"github.com/annals-go/annals/projection"
)

// Placed is the event of an order, and Charge is a command to a service that takes money.
type (
	Placed struct {
		Customer string `json:"customer"`
		Cents    int    `json:"cents"`
	}
	Charge struct {
		Cents int `json:"cents"`
	}
)

var (
	order = behavior.EventSourced[Placed, Placed, int, int]{
		Type:   "Order",
		Decide: func(_ int, p Placed) ([]Placed, error) { return []Placed{p}, nil },
		Evolve: func(total int, p Placed) int { return total + p.Cents },
	}
	accounts  = process.NewTarget("accounts", codec.JSON[Charge]("charge"))
	customers = process.NewTarget("customers", codec.JSON[string]("letter"))
)

// payment charges an account, and tells the customer what has become of it. Its events are strings, and its state is the newest of them.
var payment = process.Process[string, string]{
	Type:    "Payment",
	Version: 1,
	React: func(now string, in process.Input) (process.Step[string], error) {
		switch v := in.Value.(type) {
		case Placed:
			return process.Step[string]{
				Events:   []string{"charging " + v.Customer},
				Commands: []process.Command{accounts.Ask(v.Customer, Charge{v.Cents})},
				Timers:   []process.Timer{{Name: "patience", Due: in.Time.Add(time.Hour)}},
			}, nil
		case process.Answer:
			text := "thank you"
			if v.Err != nil {
				text = "there was a problem: " + v.Err.Error()
			}
			return process.Step[string]{Events: []string{text}, Commands: []process.Command{customers.Tell(v.Command.Recipient, text)}, Cancel: []string{"patience"}}, nil
		case process.Fired:
			return process.Step[string]{Events: []string{"waiting"}}, nil
		}
		return process.Step[string]{}, fmt.Errorf("no case for %T", in.Value)
	},
	Evolve: func(_, e string) string { return e },
}

func Example() {
	ctx := context.Background()
	store := memstore.New()
	orders, err := aggregate.New(store, order, aggregate.Options{})
	if err != nil {
		log.Fatal(err)
	}

	placed := projection.Source[Placed]{Store: store, Type: "Order", Codec: codec.JSON[Placed]("Order")}
	charge := func(_ context.Context, key, account string, c Charge) (int, error) {
		if account == "bob" {
			return 0, errors.New("no money") // a rejection; a failure is an annals.Error
		}
		fmt.Println("charge", account, c.Cents, "with the key", key)
		return c.Cents, nil
	}
	write := func(_ context.Context, _, customer, text string) (struct{}, error) {
		fmt.Printf("to %s: %s\n", customer, text)
		return struct{}{}, nil
	}
	runner, err := process.New(store, payment,
		[]process.Source{process.From(placed, func(e projection.Envelope[Placed]) string { return e.ID.EntityID() })},
		[]process.Recipients{process.To(accounts, charge), process.To(customers, write)},
		process.Options{})
	if err != nil {
		log.Fatal(err)
	}

	for _, p := range []Placed{{"ann", 500}, {"bob", 700}} {
		if _, err := orders.Ask(ctx, "order-of-"+p.Customer, p); err != nil {
			log.Fatal(err)
		}
	}
	if err := runner.Settle(ctx); err != nil { // a server calls Run, which goes on until ctx ends
		log.Fatal(err)
	}
	n, err := runner.Load(ctx, "order-of-bob")
	fmt.Println(n.State, len(n.Timers), err)
	// Unordered output:
	// charge ann 500 with the key Payment|order-of-ann/1/1
	// to ann: thank you
	// to bob: there was a problem: no money
	// there was a problem: no money 0 <nil>
}

// post is the service, which is down.
func post(_, _ string, _ Charge) (status int, err error) { return 503, nil }

// A service that gives no answer has failed: the command is sent again.
func ExampleTo() {
	call := func(_ context.Context, key, account string, c Charge) (int, error) {
		status, err := post(account, key, c) // an HTTP request with the header Idempotency-Key
		switch {
		case err != nil || status >= 500:
			return 0, &annals.Error{Op: "charge", Kind: annals.ErrUnavailable, Err: err}
		case status >= 400:
			return 0, fmt.Errorf("account %s cannot be charged", account)
		}
		return c.Cents, nil
	}
	_ = process.To(accounts, call)
	// Output:
}
