// Package order is an order of a customer, as an event-sourced entity. It knows no store.
package order

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
)

// Command is one of the types below. ID names the command: an order that gets a command twice executes it once.
type Command interface {
	id() string
	// Named returns the command with another ID.
	Named(id string) Command
}

type (
	// Place places an order.
	Place struct {
		ID, Item string
		Pieces   int
	}
	// Confirm says that the pieces are reserved. Fields and manifests of this command and of Cancel are in databases: they wait there.
	Confirm struct {
		ID string `json:"id"`
	}
	// Pay pays for an order that is confirmed.
	Pay struct{ ID string }
	// Cancel cancels an order that is not paid.
	Cancel struct {
		ID     string `json:"id"`
		Reason string `json:"reason"`
	}
)

func (c Place) id() string   { return c.ID }
func (c Confirm) id() string { return c.ID }
func (c Pay) id() string     { return c.ID }
func (c Cancel) id() string  { return c.ID }

// Named is Command.
func (c Place) Named(id string) Command { c.ID = id; return c }

// Named is Command.
func (c Confirm) Named(id string) Command { c.ID = id; return c }

// Named is Command.
func (c Pay) Named(id string) Command { c.ID = id; return c }

// Named is Command.
func (c Cancel) Named(id string) Command { c.ID = id; return c }

// Event is one of the types below. Command is the ID of the command that caused it.
type Event interface{ command() string }

type (
	// Placed is the first event of an order.
	Placed struct {
		Command string `json:"command"`
		Item    string `json:"item"`
		Pieces  int    `json:"pieces"`
	}
	// Confirmed says that the order can be paid.
	Confirmed struct {
		Command string `json:"command"`
	}
	// Paid is the last event of an order that was paid.
	Paid struct {
		Command string `json:"command"`
		Item    string `json:"item"`
	}
	// Cancelled is the last event of an order that was cancelled.
	Cancelled struct {
		Command string `json:"command"`
		Item    string `json:"item"`
		Reason  string `json:"reason"`
	}
)

func (e Placed) command() string    { return e.Command }
func (e Confirmed) command() string { return e.Command }
func (e Paid) command() string      { return e.Command }
func (e Cancelled) command() string { return e.Command }

// Events and Commands are the stored forms.
var (
	Events = []codec.Member{
		codec.JSON[Placed]("order.placed"), codec.JSON[Confirmed]("order.confirmed"), codec.JSON[Paid]("order.paid"), codec.JSON[Cancelled]("order.cancelled"),
	}
	Commands = []codec.Member{codec.JSON[Confirm]("order.confirm"), codec.JSON[Cancel]("order.cancel")}
)

// The rejections.
var (
	ErrID           = errors.New("a command has an id")
	ErrPieces       = errors.New("a number of pieces is 1 or more")
	ErrItem         = errors.New("the name of an item has 1 to 100 bytes of text")
	ErrNone         = errors.New("there is no such order")
	ErrExists       = errors.New("the order was placed before")
	ErrNotConfirmed = errors.New("the pieces are not reserved yet: try again")
	ErrClosed       = errors.New("the order is paid or cancelled")
)

// Status says how far an order is. The empty Status is that of an order that does not exist.
type Status string

// The statuses.
const (
	IsPlaced    Status = "placed"
	IsConfirmed Status = "confirmed"
	IsPaid      Status = "paid"
	IsCancelled Status = "cancelled"
)

// Order is the state.
type Order struct {
	Status Status
	Item   string
	Reason string   // why it was cancelled
	Done   []string // IDs of its commands
}

// Behavior decides commands. The reply is the order.
var Behavior = behavior.EventSourced[Command, Event, Order, Order]{
	Type:   "Order",
	Decide: decide,
	Evolve: evolve,
	Reply: func(o Order, _ Command, _ []Event) Order {
		o.Done = slices.Clone(o.Done) // a reply shares no memory with the state
		return o
	},
	Events: codec.Union[Event](Events...),
}

func decide(o Order, c Command) ([]Event, error) {
	switch {
	case c.id() == "":
		return nil, ErrID
	case slices.Contains(o.Done, c.id()):
		return nil, nil
	}
	if c, ok := c.(Place); ok {
		switch {
		case c.Pieces < 1:
			return nil, ErrPieces
		case c.Item == "" || len(c.Item) > 100 || !utf8.ValidString(c.Item) || strings.ContainsRune(c.Item, 0):
			return nil, ErrItem
		case o.Status != "":
			return nil, ErrExists
		}
		return []Event{Placed{c.ID, c.Item, c.Pieces}}, nil
	}
	switch o.Status {
	case "":
		return nil, ErrNone
	case IsPaid, IsCancelled:
		return nil, ErrClosed
	}
	switch c := c.(type) {
	case Confirm:
		return []Event{Confirmed{c.ID}}, nil
	case Pay:
		if o.Status != IsConfirmed {
			return nil, ErrNotConfirmed
		}
		return []Event{Paid{c.ID, o.Item}}, nil
	case Cancel:
		return []Event{Cancelled{c.ID, o.Item, c.Reason}}, nil
	}
	panic(fmt.Sprintf("order: no case for %T", c))
}

func evolve(o Order, e Event) Order {
	switch e := e.(type) {
	case Placed:
		o.Status, o.Item = IsPlaced, e.Item
	case Confirmed:
		o.Status = IsConfirmed
	case Paid:
		o.Status = IsPaid
	case Cancelled:
		o.Status, o.Reason = IsCancelled, e.Reason
	}
	o.Done = append(o.Done, e.command())
	return o
}
