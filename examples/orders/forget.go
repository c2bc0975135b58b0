package main

import (
	"context"
	"fmt"
	"io"

	"github.com/annals-go/annals/cleanup"
	"github.com/annals-go/annals/examples/orders/order"
)

// forget removes everything that the store knows of an order. Evict holds the order meanwhile, so that this runtime does not write
// it again from memory.
func (s *shop) forget(ctx context.Context, id string) error {
	c, err := cleanup.New(s.store, cleanup.Options{AtOnce: true})
	if err != nil {
		return err
	}
	return s.orders.Evict(ctx, id, func(ctx context.Context) error {
		_, err := c.ForgetEntities(ctx, cleanup.IDs(order.Behavior.ID(id)))
		return err
	})
}

func (s *shop) showForget(ctx context.Context, prefix string, out io.Writer) error {
	id := prefix + "5"
	place := order.Place{Customer: "bob", Item: prefix + "pad", Pieces: 1}
	if _, err := s.orders.Ask(ctx, id, place); err != nil {
		return err
	}
	if err := s.forget(ctx, id); err != nil {
		return err
	}
	o, at, err := s.orders.Load(ctx, id)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "forgotten: status %q, number %d\n", o.Status, at)
	placed, err := s.orders.Do(ctx, id, place)
	fmt.Fprintf(out, "the id can be used again: %s, number %d\n", placed.Reply, placed.SeqNr)
	return err
}
