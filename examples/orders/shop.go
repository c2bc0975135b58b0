package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/examples/orders/audit"
	"github.com/annals-go/annals/examples/orders/order"
	"github.com/annals-go/annals/examples/orders/stock"
)

// shop is the service: two runtimes on one store.
type shop struct {
	*backend
	orders *entity.Runtime[order.Command, order.Order, order.Status]
	stocks *entity.Runtime[stock.Add, stock.Stock, int]
	traces *traces
}

func newShop(b *backend, traces *traces) (*shop, error) {
	options := entity.Options{Metadata: audit.Metadata, Observer: traces}
	orders, err := entity.New(b.store, order.Behavior, options)
	if err != nil {
		return nil, err
	}
	stocks, err := entity.NewState(b.store, stock.Behavior, options)
	if err != nil {
		return nil, err
	}
	return &shop{b, orders, stocks, traces}, nil
}

// close answers the commands that were accepted, then closes the store.
func (s *shop) close(ctx context.Context) error {
	return errors.Join(s.orders.Shutdown(ctx), s.stocks.Shutdown(ctx), s.store.Close())
}

// tour takes every step once. Its ids are new, so it can be repeated on the same store.
func (s *shop) tour(ctx context.Context, out io.Writer) error {
	ctx = audit.With(ctx, audit.Record{User: "ann", Correlation: "request-1", Causation: "click"})
	prefix := rand.Text()[:8]
	for _, step := range []struct {
		title string
		take  func(ctx context.Context, prefix string, out io.Writer) error
	}{
		{"health", func(ctx context.Context, _ string, out io.Writer) error { return s.check(ctx, out) }},
		{"an append and the program's own table in one transaction", s.showPlace},
		{"a view, and its number as an ETag", s.showETag},
		{"event time and metadata in a behavior, metadata of a state", s.showHistory},
		{"a snapshot of another shape", s.showSnapshot},
		{"an Observer that links the traces of all callers of a batch", s.showTraces},
		{"a copy keeps times, numbers and revisions", s.showCopy},
		{"forgetting an order that is in memory", s.showForget},
	} {
		fmt.Fprintf(out, "\n# %s\n", step.title)
		if err := step.take(ctx, prefix+"-", out); err != nil {
			return fmt.Errorf("%s: %w", step.title, err)
		}
	}
	return nil
}
