package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/examples/orders/order"
)

// oldSnapshots is the codec of an earlier release of this program. Its snapshots knew only how far an order is.
var oldSnapshots = codec.JSON[order.Status]("order.snapshot.1")

// showSnapshot puts a snapshot of the earlier release in front of the events. The order is rebuilt from its events, and the next
// snapshot has the shape of today.
func (s *shop) showSnapshot(ctx context.Context, prefix string, out io.Writer) error {
	id := prefix + "4"
	if _, err := s.orders.Ask(ctx, id, order.Place{Customer: "bob", Item: prefix + "pad", Pieces: 1}); err != nil {
		return err
	}
	old, err := oldSnapshots.Encode(order.IsPlaced)
	if err != nil {
		return err
	}
	if err := s.store.Snapshots().Save(ctx, annals.Snapshot{ID: order.Behavior.ID(id), SeqNr: 1, Payload: old}); err != nil {
		return err
	}
	if err := s.orders.Evict(ctx, id, nil); err != nil { // so that the order is read from the store again
		return err
	}
	o, at, err := s.orders.Load(ctx, id)
	if err != nil {
		return err
	}
	history := o.History
	if len(history) == 0 {
		return errors.New("the order has no history")
	}
	fmt.Fprintf(out, "the order is at number %d with %d change, by %s\n", at, len(history), history[0].By)
	return nil
}
