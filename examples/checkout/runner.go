package main

import (
	"context"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/examples/checkout/flow"
	"github.com/annals-go/annals/examples/checkout/item"
	"github.com/annals-go/annals/examples/checkout/order"
	"github.com/annals-go/annals/process"
	"github.com/annals-go/annals/projection"
)

// precision is how much later than its time a timer may take effect.
const precision = 100 * time.Millisecond

// newRunner connects the process with orders and items. The id of a command is the ID by which an order or item recognises it when it is sent
// again.
func newRunner(store annals.Store, orders *aggregate.Repository[order.Command, order.Order, order.Order],
	items *aggregate.Repository[item.Command, item.Item, int], p flow.Process, o process.Options) (*process.Runner[struct{}, struct{}], error) {
	sources := []process.Source{
		process.From(projection.Source[order.Event]{Store: store, Type: order.Behavior.Type, Codec: codec.Union[order.Event](order.Events...)},
			func(e projection.Envelope[order.Event]) string { return e.ID.EntityID() }),
		process.From(projection.Source[item.Event]{Store: store, Type: item.Behavior.Type, Codec: codec.Union[item.Event](item.Events...)},
			func(e projection.Envelope[item.Event]) string { return flow.OrderOf(e.Value) }),
	}
	targets := []process.Recipients{
		process.To(flow.Orders, func(ctx context.Context, key, id string, c order.Command) (order.Order, error) {
			return orders.Ask(ctx, id, c.Named(key))
		}),
		process.To(flow.Items, func(ctx context.Context, key, id string, c item.Command) (int, error) {
			return items.Ask(ctx, id, c.Named(key))
		}),
	}
	o.Precision = precision
	return process.New(store, p, sources, targets, o)
}
