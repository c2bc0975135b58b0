package sqlitestore

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
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

// pages yields what read finds after f.After, page by page. The page that is not full is the last one.
func pages[T any](ctx context.Context, v view, f annals.Filter, offset func(T) annals.Offset,
	read func(ctx context.Context, q *statements, f annals.Filter, p *page[T]) error) iter.Seq2[T, error] {
	var p page[T]
	return driver.Pages(ctx, func(ctx context.Context) ([]T, bool, error) {
		p.rows, p.most, p.bytes = p.rows[:0], pageRows, 0
		if f.Limit > 0 {
			p.most = min(f.Limit, pageRows)
		}
		err := v.read(ctx, func(ctx context.Context, q *statements) error { return read(ctx, q, f, &p) })
		if err != nil {
			return nil, false, err
		}
		if len(p.rows) == f.Limit && f.Limit > 0 {
			return p.rows, false, nil
		}
		f.Limit -= len(p.rows)
		if p.full() {
			f.After = offset(p.rows[len(p.rows)-1])
		}
		return p.rows, p.full(), nil
	})
}
