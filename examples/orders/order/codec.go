package order

import (
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/codec/protocodec"
	"github.com/annals-go/annals/examples/orders/order/orderpb"
)

// Events stores events as protobuf messages. The domain does not use the generated types: two functions for each event map between
// them.
var Events = codec.Union[Event](
	protocodec.Map("order.placed",
		func(e Placed) (*orderpb.Placed, error) {
			return &orderpb.Placed{Customer: e.Customer, Item: e.Item, Pieces: int64(e.Pieces)}, nil
		},
		func(m *orderpb.Placed) (Placed, error) {
			return Placed{Customer: m.GetCustomer(), Item: m.GetItem(), Pieces: int(m.GetPieces())}, nil
		}),
	protocodec.Map("order.paid",
		func(Paid) (*orderpb.Paid, error) { return &orderpb.Paid{}, nil },
		func(*orderpb.Paid) (Paid, error) { return Paid{}, nil }),
	protocodec.Map("order.cancelled",
		func(e Cancelled) (*orderpb.Cancelled, error) { return &orderpb.Cancelled{Reason: e.Reason}, nil },
		func(m *orderpb.Cancelled) (Cancelled, error) { return Cancelled{m.GetReason()}, nil }),
)

// Snapshots stores snapshots as JSON. The manifest ends with the version of their shape: earlier releases of this program wrote
// "order.snapshot.1", without the History. Such a snapshot is not read; the order is rebuilt from its events.
var Snapshots = codec.JSON[Order]("order.snapshot.2")
