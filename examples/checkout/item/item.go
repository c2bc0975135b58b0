// Package item is an item of a shop, as an event-sourced entity: how many pieces are free, and which orders hold pieces. It knows no
// store.
package item

import (
	"errors"
	"fmt"
	"slices"

	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
)

// Command is one of the types below. ID names the command: an item that gets a command twice executes it once.
type Command interface {
	id() string
	// Named returns the command with another ID.
	Named(id string) Command
}

// Fields and manifests of commands are in databases, as those of events: commands wait there.
type (
	// Add adds pieces.
	Add struct {
		ID     string `json:"id"`
		Pieces int    `json:"pieces"`
	}
	// Reserve holds pieces for an order, or refuses to when there are too few.
	Reserve struct {
		ID     string `json:"id"`
		Order  string `json:"order"`
		Pieces int    `json:"pieces"`
	}
	// Ship gives the pieces that an order holds away.
	Ship struct {
		ID    string `json:"id"`
		Order string `json:"order"`
	}
	// Release makes the pieces that an order holds free again. An order that holds none changes nothing.
	Release struct {
		ID    string `json:"id"`
		Order string `json:"order"`
	}
)

func (c Add) id() string     { return c.ID }
func (c Reserve) id() string { return c.ID }
func (c Ship) id() string    { return c.ID }
func (c Release) id() string { return c.ID }

// Named is Command.
func (c Add) Named(id string) Command { c.ID = id; return c }

// Named is Command.
func (c Reserve) Named(id string) Command { c.ID = id; return c }

// Named is Command.
func (c Ship) Named(id string) Command { c.ID = id; return c }

// Named is Command.
func (c Release) Named(id string) Command { c.ID = id; return c }

// Event is one of the types below. Command is the ID of the command that caused it.
type Event interface{ command() string }

type (
	// Added says that there are more pieces.
	Added struct {
		Command string `json:"command"`
		Pieces  int    `json:"pieces"`
	}
	// Reserved says that an order holds pieces.
	Reserved struct {
		Command string `json:"command"`
		Order   string `json:"order"`
		Pieces  int    `json:"pieces"`
	}
	// Refused says that there were too few pieces for an order.
	Refused struct {
		Command string `json:"command"`
		Order   string `json:"order"`
	}
	// Shipped says that the pieces of an order are on their way.
	Shipped struct {
		Command string `json:"command"`
		Order   string `json:"order"`
	}
	// Released says that the pieces of an order are free again.
	Released struct {
		Command string `json:"command"`
		Order   string `json:"order"`
	}
)

func (e Added) command() string    { return e.Command }
func (e Reserved) command() string { return e.Command }
func (e Refused) command() string  { return e.Command }
func (e Shipped) command() string  { return e.Command }
func (e Released) command() string { return e.Command }

// Events and Commands are the stored forms.
var (
	Events = []codec.Member{
		codec.JSON[Added]("item.added"), codec.JSON[Reserved]("item.reserved"), codec.JSON[Refused]("item.refused"),
		codec.JSON[Shipped]("item.shipped"), codec.JSON[Released]("item.released"),
	}
	Commands = []codec.Member{codec.JSON[Reserve]("item.reserve"), codec.JSON[Ship]("item.ship"), codec.JSON[Release]("item.release")}
)

// The rejections.
var (
	ErrID      = errors.New("a command has an id")
	ErrPieces  = errors.New("a number of pieces is 1 or more")
	ErrNotHeld = errors.New("the order holds no pieces")
)

// remembered is how many of its newest commands an item remembers. A command that is repeated later than after so many others would be
// executed again.
const remembered = 1000

// Item is the state.
type Item struct {
	Free   int            `json:"free"`
	Held   map[string]int `json:"held"`   // by order
	Recent []string       `json:"recent"` // IDs of the newest commands that caused an event
}

// Behavior decides commands. The reply is how many pieces are free.
var Behavior = behavior.EventSourced[Command, Event, Item, int]{
	Type:          "Item",
	Init:          func(string) Item { return Item{Held: map[string]int{}} },
	Decide:        decide,
	Evolve:        evolve,
	Reply:         func(i Item, _ Command, _ []Event) int { return i.Free },
	Events:        codec.Union[Event](Events...),
	States:        codec.JSON[Item]("item"),
	SnapshotEvery: 500,
}

func decide(i Item, c Command) ([]Event, error) {
	switch {
	case c.id() == "":
		return nil, ErrID
	case slices.Contains(i.Recent, c.id()):
		return nil, nil
	}
	switch c := c.(type) {
	case Add:
		if c.Pieces < 1 {
			return nil, ErrPieces
		}
		return []Event{Added{c.ID, c.Pieces}}, nil
	case Reserve:
		switch {
		case c.Pieces < 1:
			return nil, ErrPieces
		case c.Pieces > i.Free:
			return []Event{Refused{c.ID, c.Order}}, nil
		}
		return []Event{Reserved{c.ID, c.Order, c.Pieces}}, nil
	case Ship:
		if i.Held[c.Order] == 0 {
			return nil, ErrNotHeld
		}
		return []Event{Shipped{c.ID, c.Order}}, nil
	case Release:
		if i.Held[c.Order] == 0 {
			return nil, nil
		}
		return []Event{Released{c.ID, c.Order}}, nil
	}
	panic(fmt.Sprintf("item: no case for %T", c))
}

func evolve(i Item, e Event) Item {
	switch e := e.(type) {
	case Added:
		i.Free += e.Pieces
	case Reserved:
		i.Free -= e.Pieces
		i.Held[e.Order] += e.Pieces
	case Shipped:
		delete(i.Held, e.Order)
	case Released:
		i.Free += i.Held[e.Order]
		delete(i.Held, e.Order)
	}
	i.Recent = append(i.Recent, e.command())
	if n := len(i.Recent) - remembered; n > 0 {
		i.Recent = slices.Delete(i.Recent, 0, n)
	}
	return i
}
