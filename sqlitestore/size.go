package sqlitestore

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
)

var _ ability.EventSizer = (*Store)(nil)

// EventsSize is ability.EventSizer. It reads the pages of the table with events and of its indexes.
func (s *Store) EventsSize(ctx context.Context) (ability.Size, error) {
	size := ability.Size{Fsyncs: 1}
	err := driver.Read(ctx, s.Store, annals.Call{Op: "size events"}, func(ctx context.Context) error {
		return driver.Fetch(ctx, func(ctx context.Context) error {
			return s.backend.fresh(ctx, func(ctx context.Context, q *statements) error {
				_, err := q.row(ctx, `
					SELECT sum(s.pgsize) FILTER (WHERE m.type = 'table') AS bytes, sum(s.pgsize) FILTER (WHERE m.type = 'index') AS index_bytes,
						sum(s.ncell) FILTER (WHERE m.type = 'table' AND s.pagetype = 'leaf') AS items
					FROM sqlite_schema m CROSS JOIN dbstat s ON s.name = m.name WHERE m.tbl_name = 'event_journal'`, nil, func(v *values) {
					size.Bytes, size.IndexBytes, size.Items = v.any64("bytes"), v.any64("index_bytes"), v.any64("items")
				})
				return err
			})
		})
	})
	return size, err
}
