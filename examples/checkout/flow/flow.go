// Package flow takes orders from placed to shipped or cancelled. It is a process manager: it reacts to the events of orders and items, and
// sends commands to them. It knows no store.
//
//	order placed            → the item reserves its pieces; unless the order is paid within a time, it is cancelled
//	item reserved           → the order is confirmed, and can be paid
//	item refused            → the order is cancelled
//	order paid              → the item ships the pieces
//	order cancelled         → the item releases the pieces
package flow

import (
	"fmt"
	"time"

	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/examples/checkout/item"
	"github.com/annals-go/annals/examples/checkout/order"
	"github.com/annals-go/annals/process"
)

// Orders and Items get the commands.
var (
	Orders = process.NewTarget("orders", codec.Union[order.Command](order.Commands...))
	Items  = process.NewTarget("items", codec.Union[item.Command](item.Commands...))
)

// Step is what an event causes. The process has no events and no state of its own.
type Step = process.Step[struct{}]

// Process is the process manager. Each order has an instance, which has the id of the order.
type Process = process.Process[struct{}, struct{}]

const deadline = "deadline"

// New returns the process for orders that are cancelled unless they are paid within a time. A change of it is for orders that are placed afterwards.
func New(within time.Duration) Process {
	return Process{
		Type: "Checkout",
		React: func(_ struct{}, in process.Input) (Step, error) {
			id := in.ID
			switch v := in.Value.(type) {
			case order.Placed:
				return Step{
					Commands: []process.Command{Items.Tell(v.Item, item.Reserve{Order: id, Pieces: v.Pieces})},
					Timers:   []process.Timer{{Name: deadline, Due: in.Time.Add(within)}},
				}, nil
			case item.Reserved:
				return send(Orders.Tell(id, order.Confirm{})), nil
			case item.Refused:
				return send(Orders.Tell(id, order.Cancel{Reason: "sold out"})), nil
			case process.Fired:
				return send(Orders.Tell(id, order.Cancel{Reason: "it was not paid in time"})), nil
			case order.Paid:
				return Step{Commands: []process.Command{Items.Tell(v.Item, item.Ship{Order: id})}, End: true}, nil
			case order.Cancelled:
				return Step{Commands: []process.Command{Items.Tell(v.Item, item.Release{Order: id})}, End: true}, nil
			case order.Confirmed:
				return Step{}, nil
			}
			return Step{}, fmt.Errorf("no case for %T", in.Value)
		},
	}
}

func send(c process.Command) Step { return Step{Commands: []process.Command{c}} }

// OrderOf returns the order that waits for an event of an item, "" when none does.
func OrderOf(e item.Event) string {
	switch e := e.(type) {
	case item.Reserved:
		return e.Order
	case item.Refused:
		return e.Order
	}
	return ""
}
