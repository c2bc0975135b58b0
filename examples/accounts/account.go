package main

import (
	"errors"

	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
)

// Command is Deposit or Withdraw.
type Command interface{ amount() int64 }

type (
	Deposit  struct{ Cents int64 }
	Withdraw struct{ Cents int64 }
)

func (c Deposit) amount() int64  { return c.Cents }
func (c Withdraw) amount() int64 { return c.Cents }

// Event is Deposited or Withdrawn. Events are stored as JSON.
type Event interface{ change() int64 }

type (
	Deposited struct {
		Cents int64 `json:"cents"`
	}
	Withdrawn struct {
		Cents int64 `json:"cents"`
	}
)

func (e Deposited) change() int64 { return e.Cents }
func (e Withdrawn) change() int64 { return -e.Cents }

// events gives each type of event the name under which it is stored.
var events = codec.Union[Event](codec.JSON[Deposited]("deposited"), codec.JSON[Withdrawn]("withdrawn"))

// The rejections.
var (
	ErrAmount = errors.New("an amount is 1 to 1,000,000,000 cents")
	ErrFunds  = errors.New("the account has not so much")
)

// account has a balance in cents as its state, and as its answer.
var account = behavior.EventSourced[Command, Event, int64, int64]{
	Type:   "Account",
	Decide: decide,
	Evolve: func(balance int64, e Event) int64 { return balance + e.change() },
	Reply:  func(balance int64, _ Command, _ []Event) int64 { return balance },
	Events: events,
}

func decide(balance int64, c Command) ([]Event, error) {
	if c.amount() < 1 || c.amount() > 1_000_000_000 {
		return nil, ErrAmount
	}
	switch c := c.(type) {
	case Deposit:
		return []Event{Deposited(c)}, nil
	case Withdraw:
		if c.Cents > balance {
			return nil, ErrFunds
		}
		return []Event{Withdrawn(c)}, nil
	}
	return nil, errors.ErrUnsupported
}
