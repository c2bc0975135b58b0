package sqlitestore

import (
	"context"
	"iter"

	"github.com/annals-go/annals/driver"
)

// A page is read whole before its first row is yielded, so that nothing is held while the body of a loop runs.
const (
	pageRows  = 1000
	pageBytes = 1 << 20
)

// page is what is read at once: as many rows as pageRows and pageBytes allow.
type page[T any] struct {
	rows  []T
	bytes int
}

// add reports whether there is space for more.
func (p *page[T]) add(row T, bytes int) bool {
	p.rows = append(p.rows, row)
	p.bytes += bytes
	return !p.full()
}

func (p *page[T]) full() bool { return len(p.rows) >= pageRows || p.bytes >= pageBytes }

// pages yields the rows of the pages that read returns, each from after the last row of the page before; last is nil for the first
// page. The page that is not full is the last one. limit bounds the rows of all pages; 0 is no bound.
func pages[T any](ctx context.Context, v view, limit int, read func(ctx context.Context, q *statements, p *page[T], last *T) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var (
			p    page[T]
			last *T
		)
		for {
			p.rows, p.bytes = p.rows[:0], 0
			err := driver.Fetch(ctx, func(ctx context.Context) error {
				return v.read(ctx, func(ctx context.Context, q *statements) error { return read(ctx, q, &p, last) })
			})
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, row := range p.rows {
				if !yield(row, nil) {
					return
				}
				if limit--; limit == 0 {
					return
				}
			}
			if !p.full() {
				return
			}
			newest := p.rows[len(p.rows)-1]
			last = &newest
		}
	}
}
