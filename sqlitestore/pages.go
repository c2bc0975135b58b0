package sqlitestore

import (
	"context"

	"github.com/annals-go/annals"
)

// page says how a long result is read in pages.
type page[T any] struct {
	read   func(ctx context.Context, q *statements, p *buffer[T]) error // from behind the last one that passed, at most pageRows
	passed func(T)
	limit  int // of all pages together, 0 = none
}

// buffer is one page. It is full at pageRows or pageBytes.
type buffer[T any] struct {
	items []T
	bytes int
}

// add reports whether there is room for more.
func (b *buffer[T]) add(item T, bytes int) bool {
	b.items = append(b.items, item)
	b.bytes += bytes
	return !b.full()
}

func (b *buffer[T]) full() bool { return len(b.items) >= pageRows || b.bytes >= pageBytes }

// pages yields everything that p reads. Nothing is held while yield runs.
func pages[T any](ctx context.Context, c *contracts, o *observed, call annals.Call, p page[T], yield func(T, error) bool) error {
	var b buffer[T]
	left := p.limit
	for {
		b.items, b.bytes = b.items[:0], 0
		o.requests(1)
		err := c.read(ctx, call, func(ctx context.Context, q *statements) error { return p.read(ctx, q, &b) })
		if err != nil {
			return err
		}
		more := b.full()
		o.moved(len(b.items), b.bytes)
		for _, item := range b.items {
			if !yield(item, nil) {
				return errBroken
			}
			p.passed(item)
			if left--; left == 0 {
				return nil
			}
		}
		if !more {
			return nil
		}
	}
}
