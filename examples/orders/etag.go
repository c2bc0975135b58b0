package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/examples/orders/order"
)

// showETag reads an order without a command, and changes it on the condition that it is still what was read. A web service sends the
// number as an ETag and gets it back as If-Match.
func (s *shop) showETag(ctx context.Context, prefix string, out io.Writer) error {
	id := prefix + "1"
	o, etag, err := s.orders.Load(ctx, id)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the order is %s at number %d\n", o.Status, etag)

	_, err = s.orders.DoAt(ctx, id, etag-1, order.Pay{})
	fmt.Fprintln(out, "with an old number it is a conflict:", errors.Is(err, annals.ErrConflict))

	paid, err := s.orders.DoAt(ctx, id, etag, order.Pay{})
	fmt.Fprintf(out, "with its number the order becomes %s, at number %d\n", paid.Reply, paid.SeqNr)
	return err
}
