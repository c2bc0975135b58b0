package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/examples/orders/audit"
	"github.com/annals-go/annals/examples/orders/order"
	"github.com/annals-go/annals/examples/orders/stock"
)

// place places an order, takes its pieces from the stock and sends a message, in one transaction. On DynamoDB a conflict shows when the
// transaction ends, so the whole is repeated then; on the other stores Do repeats the command itself.
func (s *shop) place(ctx context.Context, id string, c order.Place) error {
	for try := 0; ; try++ {
		err := s.inTx(ctx, func(ctx context.Context, in annals.Store, send func(message) error) error {
			options := aggregate.Options{Metadata: audit.Metadata}
			orders, err := aggregate.New(in, order.Behavior, options)
			if err != nil {
				return err
			}
			stocks, err := aggregate.NewState(in, stock.Behavior, options)
			if err != nil {
				return err
			}
			placed, err := orders.Do(ctx, id, c)
			if err != nil {
				return err
			}
			if _, err := stocks.Do(ctx, c.Item, stock.Add(-c.Pieces)); err != nil {
				return err
			}
			return send(message{id, placed.SeqNr, "placed"})
		})
		if !errors.Is(err, annals.ErrConflict) || try == 10 {
			return err
		}
	}
}

func (s *shop) showPlace(ctx context.Context, prefix string, out io.Writer) error {
	pen := prefix + "pen"
	if _, err := s.stocks.Ask(ctx, pen, 2); err != nil {
		return err
	}
	if err := s.place(ctx, prefix+"1", order.Place{Customer: "bob", Item: pen, Pieces: 2}); err != nil {
		return err
	}
	err := s.place(ctx, prefix+"2", order.Place{Customer: "eve", Item: pen, Pieces: 1})
	fmt.Fprintln(out, "the second order is sold out:", errors.Is(err, stock.ErrSoldOut))

	sent, err := s.outbox(ctx)
	if err != nil {
		return err
	}
	for _, id := range []string{"1", "2"} {
		last, err := s.store.Journal().LastSeqNr(ctx, order.Behavior.ID(prefix+id))
		if err != nil {
			return err
		}
		messages := 0
		for _, m := range sent {
			if m.Order == prefix+id {
				messages++
			}
		}
		fmt.Fprintf(out, "order %s: %d events, %d messages\n", id, last, messages)
	}
	left, err := s.stocks.Ask(ctx, pen, 0)
	fmt.Fprintln(out, "pens left:", left)
	return err
}
