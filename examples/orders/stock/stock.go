// Package stock is how many pieces there are of an item, as a durable state.
package stock

import (
	"errors"

	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
)

// Add is the command: so many pieces more, or less below 0.
type Add int

// ErrSoldOut is the rejection.
var ErrSoldOut = errors.New("there are not enough pieces")

// Stock is the state.
type Stock struct{ Pieces int }

// States stores the state as JSON.
var States = codec.JSON[Stock]("stock")

// Behavior decides commands. The reply is how many pieces there are now.
var Behavior = behavior.DurableState[Add, Stock, int]{
	Type:   "Stock",
	States: States,
	Decide: func(s Stock, add Add) (behavior.Effect[Stock], error) {
		if s.Pieces+int(add) < 0 {
			return behavior.Effect[Stock]{}, ErrSoldOut
		}
		return behavior.Save(Stock{s.Pieces + int(add)}), nil
	},
	Reply: func(s Stock, _ Add) int { return s.Pieces },
}
