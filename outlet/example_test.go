package outlet_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/outlet"
	"github.com/annals-go/annals/projection"
)

// Placed is an event of an order.
type Placed struct{ Item string }

// Request is the metadata of events: the request of a client that caused them.
type Request struct{ ID string }

var (
	orderEvents = codec.JSON[Placed]("placed.v1")
	requests    = codec.JSON[Request]("request.v1")
)

// Its command is an item, its state the item that was ordered.
var order = behavior.EventSourced[string, Placed, string, struct{}]{
	Type:   "Order",
	Events: orderEvents,
	Decide: func(_, item string) ([]Placed, error) { return []Placed{{item}}, nil },
	Evolve: func(_ string, e Placed) string { return e.Item },
}

// publish publishes the orders in store until ctx ends.
func publish(ctx context.Context, store annals.Store, broker message.Publisher) error {
	topic := func(e projection.Envelope[annals.Payload]) string { return "orders" }
	handle, err := outlet.Handler(broker, topic, outlet.Options[annals.Payload]{Edit: addCorrelationID})
	if err != nil {
		return err
	}
	source := projection.Source[annals.Payload]{Store: store, Type: "Order", Codec: outlet.AsStored}
	runner, err := projection.AtLeastOnceGrouped("orders to the broker", source, store, handle, projection.Options{})
	if err != nil {
		return err
	}
	return runner.Run(ctx)
}

// addCorrelationID adds the request that caused the event to its message.
func addCorrelationID(e projection.Envelope[annals.Payload], m *message.Message) error {
	if e.Metadata.SerializerID == 0 { // the event was stored without metadata
		return nil
	}
	request, err := requests.Decode(e.Metadata)
	if err != nil {
		return err
	}
	m.Metadata.Set("correlation_id", request.ID) // where Watermill's middleware looks for it
	return nil
}

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// The broker is within the process. Publish returns when the subscriber has acknowledged.
	broker := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil)
	messages, err := broker.Subscribe(ctx, "orders")
	if err != nil {
		log.Fatal(err)
	}
	store := memstore.New()
	go func() {
		if err := publish(ctx, store, broker); err != nil {
			log.Fatal(err)
		}
	}()

	orders, err := aggregate.New(store, order, aggregate.Options{
		Metadata: func(context.Context) (annals.Payload, error) { return requests.Encode(Request{"r-1"}) },
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, item := range []string{"pen", "ink"} {
		if _, err := orders.Ask(ctx, "o-1", item); err != nil {
			log.Fatal(err)
		}
	}
	for range 2 {
		m := <-messages
		e, err := outlet.Event(m)
		if err != nil {
			log.Fatal(err)
		}
		placed, err := orderEvents.Decode(e.Payload)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.ID, e.SeqNr, placed.Item, m.Metadata.Get("correlation_id"))
		m.Ack()
	}
	// Output:
	// Order|o-1 1 pen r-1
	// Order|o-1 2 ink r-1
}
