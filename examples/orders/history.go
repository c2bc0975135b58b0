package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/examples/orders/audit"
	"github.com/annals-go/annals/examples/orders/order"
	"github.com/annals-go/annals/examples/orders/stock"
)

// showHistory shows that the behavior knows when its events were stored and who caused them, and what the metadata of a state says.
func (s *shop) showHistory(ctx context.Context, prefix string, out io.Writer) error {
	id := prefix + "3"
	if _, err := s.stocks.Ask(ctx, prefix+"ink", 1); err != nil {
		return err
	}
	if err := s.place(ctx, id, order.Place{Customer: "bob", Item: prefix + "ink", Pieces: 1}); err != nil {
		return err
	}
	// The rule compares with the time of the event, which the store gave.
	o, _, err := s.orders.Load(ctx, id)
	if err != nil {
		return err
	}
	placed := o.PlacedAt
	_, err = s.orders.Ask(ctx, id, order.Cancel{Reason: "by mistake", Now: placed.Add(31 * time.Minute)})
	fmt.Fprintln(out, "31 minutes after it was placed it is too late to cancel:", errors.Is(err, order.ErrTooLate))

	eve := audit.With(ctx, audit.Record{User: "eve", Correlation: "request-2"})
	if _, err := s.orders.Ask(eve, id, order.Cancel{Reason: "by mistake", Now: placed.Add(29 * time.Minute)}); err != nil {
		return err
	}
	var history []order.Change
	err = s.orders.View(ctx, id, func(o order.Order, _ annals.SeqNr) error {
		history = slices.Clone(o.History) // what a View shows must not be used later
		return nil
	})
	if err != nil {
		return err
	}
	for _, c := range history {
		fmt.Fprintf(out, "%s by %s; not before the last change: %t\n", c.Status, c.By, !c.At.Before(placed))
		placed = c.At
	}

	state, _, err := s.store.States().Get(ctx, stock.Behavior.ID(prefix+"ink"))
	if err != nil || !s.store.Capabilities().StateMetadata {
		return err
	}
	by, err := audit.Records.Decode(state.Metadata)
	fmt.Fprintf(out, "the stock was changed by %s in %s\n", by.User, by.Correlation)
	return err
}
