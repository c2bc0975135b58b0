// Package order is an order of a customer, as an event-sourced entity: commands, events, state and rules. It knows no store.
package order

import (
	"errors"
	"fmt"
	"time"

	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/examples/orders/audit"
)

// Command is a Place, a Pay or a Cancel.
type Command interface{ command() }

type (
	// Place places an order. An order is placed once.
	Place struct {
		Customer, Item string
		Pieces         int
	}
	// Pay pays for an order.
	Pay struct{}
	// Cancel cancels an order that was placed a short time ago.
	Cancel struct {
		Reason string
		Now    time.Time // by the clock of the caller
	}
)

func (Place) command()  {}
func (Pay) command()    {}
func (Cancel) command() {}

// Event is a Placed, a Paid or a Cancelled. Events have no time and no user of their own: the store knows the time, and the metadata
// names the user.
type Event interface{ event() }

type (
	// Placed is the first event of an order.
	Placed struct {
		Customer, Item string
		Pieces         int
	}
	// Paid is the last event of an order that was paid.
	Paid struct{}
	// Cancelled is the last event of an order that was cancelled.
	Cancelled struct{ Reason string }
)

func (Placed) event()    {}
func (Paid) event()      {}
func (Cancelled) event() {}

// The rejections.
var (
	ErrPieces  = errors.New("a number of pieces is 1 or more")
	ErrNone    = errors.New("there is no such order")
	ErrExists  = errors.New("the order was placed before")
	ErrClosed  = errors.New("the order is paid or cancelled")
	ErrTooLate = errors.New("an order can be cancelled for 30 minutes")
)

// cancellable is how long after it was placed an order can be cancelled.
const cancellable = 30 * time.Minute

// Status says how far an order is.
type Status string

// The statuses. The empty Status is that of an order that does not exist.
const (
	IsPlaced    Status = "placed"
	IsPaid      Status = "paid"
	IsCancelled Status = "cancelled"
)

// Order is the state of an order. The zero Order does not exist.
type Order struct {
	Status         Status
	Customer, Item string
	Pieces         int
	PlacedAt       time.Time // by the clock of the store
	History        []Change
}

// Change says who made an order what it is.
type Change struct {
	Status Status
	At     time.Time
	By     string
}

// Behavior decides commands. The reply is the status.
var Behavior = behavior.EventSourced[Command, Event, Order, Status]{
	Type:          "Order",
	Decide:        decide,
	EvolveStored:  evolve,
	Reply:         func(o Order, _ Command, _ []Event) Status { return o.Status },
	Events:        Events,
	States:        Snapshots,
	Metadata:      audit.Any,
	SnapshotEvery: 2,
}

func decide(o Order, c Command) ([]Event, error) {
	if c, ok := c.(Place); ok {
		switch {
		case c.Pieces < 1: // they are taken from the stock
			return nil, ErrPieces
		case o.Status != "":
			return nil, ErrExists
		}
		return []Event{Placed(c)}, nil
	}
	switch o.Status {
	case "":
		return nil, ErrNone
	case IsPaid, IsCancelled:
		return nil, ErrClosed
	}
	switch c := c.(type) {
	case Pay:
		return []Event{Paid{}}, nil
	case Cancel:
		if c.Now.Sub(o.PlacedAt) > cancellable {
			return nil, ErrTooLate
		}
		return []Event{Cancelled{c.Reason}}, nil
	}
	panic(fmt.Sprintf("no case for %T", c))
}

// evolve is called with what the store knows of the event: its number, its time and its metadata.
func evolve(o Order, e Event, info behavior.Info) Order {
	switch e := e.(type) {
	case Placed:
		o.Customer, o.Item, o.Pieces, o.PlacedAt = e.Customer, e.Item, e.Pieces, info.Time
		o.Status = IsPlaced
	case Paid:
		o.Status = IsPaid
	case Cancelled:
		o.Status = IsCancelled
	}
	by, _ := info.Metadata.(audit.Record)
	o.History = append(o.History, Change{o.Status, info.Time, by.User})
	return o
}
