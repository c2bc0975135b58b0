package process

import (
	"fmt"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/examples/checkout/item"
	"github.com/annals-go/annals/examples/checkout/order"
)

// todo is a command that is to be sent to an entity at a time. Its id is made of the event that caused it, so it is the same whenever the
// event is handled.
type todo struct {
	id string
	at time.Time
	to string // id of the entity
	do any    // an order.Command or an item.Command
}

// events and commands are what the process reads and what it sends.
var (
	events   = codec.Union[any](slices.Concat(order.Events, item.Events)...)
	commands = codec.Union[any](slices.Concat(order.Commands, item.Commands)...)
)

// react returns which commands an event causes, and the ids of those that are no longer needed. An order is paid within a time, or it is
// cancelled.
func react(e annals.Event, value any, within time.Duration) (add []todo, drop []string) {
	entity := e.ID.EntityID()
	id := func(what string) string { return fmt.Sprintf("%s/%d/%s", e.ID, e.SeqNr, what) }
	switch v := value.(type) {
	case order.Placed:
		reserve, cancel := id("reserve"), deadline(entity)
		return []todo{
			{reserve, e.Time, v.Item, item.Reserve{ID: reserve, Order: entity, Pieces: v.Pieces}},
			{cancel, e.Time.Add(within), entity, order.Cancel{ID: cancel, Reason: "it was not paid in time"}},
		}, nil
	case item.Reserved:
		confirm := id("confirm")
		return []todo{{confirm, e.Time, v.Order, order.Confirm{ID: confirm}}}, nil
	case item.Refused:
		cancel := id("cancel")
		return []todo{{cancel, e.Time, v.Order, order.Cancel{ID: cancel, Reason: "sold out"}}}, nil
	case order.Paid:
		ship := id("ship")
		return []todo{{ship, e.Time, v.Item, item.Ship{ID: ship, Order: entity}}}, []string{deadline(entity)}
	case order.Cancelled:
		release := id("release")
		return []todo{{release, e.Time, v.Item, item.Release{ID: release, Order: entity}}}, []string{deadline(entity)}
	}
	return nil, nil
}

// deadline is the id of the command that cancels an order which is not paid in time. Its event is the first of the order.
func deadline(entity string) string {
	return fmt.Sprintf("%s/1/deadline", order.Behavior.ID(entity))
}
