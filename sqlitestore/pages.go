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

// page is what is read at once: as many rows as most, which is at most pageRows, and pageBytes allow.
type page[T any] struct {
	rows  []T
	most  int
	bytes int
}

// add reports whether there is space for more.
func (p *page[T]) add(row T, bytes int) bool {
	p.rows = append(p.rows, row)
	p.bytes += bytes
	return !p.full()
}

func (p *page[T]) full() bool { return len(p.rows) >= p.most || p.bytes >= pageBytes }

// pages yields the rows of the pages that read returns, each from after the last row of the page before; last is nil for the first
// page. The page that is not full is the last one. limit bounds the rows of all pages; 0 is no bound.
func pages[T any](ctx context.Context, v view, limit int, read func(ctx context.Context, q *statements, p *page[T], last *T) error) iter.Seq2[T, error] {
	var (
		p    page[T]
		last *T
	)
	return driver.Pages(ctx, func(ctx context.Context) ([]T, bool, error) {
		p.rows, p.most, p.bytes = p.rows[:0], pageRows, 0
		if limit > 0 {
			p.most = min(limit, pageRows)
		}
		err := v.read(ctx, func(ctx context.Context, q *statements) error { return read(ctx, q, &p, last) })
		if err != nil {
			return nil, false, err
		}
		if len(p.rows) == limit && limit > 0 {
			return p.rows, false, nil
		}
		limit -= len(p.rows)
		if p.full() {
			newest := p.rows[len(p.rows)-1]
			last = &newest
		}
		return p.rows, p.full(), nil
	})
}
