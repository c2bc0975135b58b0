package sqlitestore

import (
	"context"
	"encoding/json"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
)

var _ ability.Sizer = (*Store)(nil)

// Sizes is ability.Sizer. It reads the pages of the tables and of their indexes.
func (s *Store) Sizes(ctx context.Context) (sizes []ability.Size, err error) {
	own := []string{"event_journal", "snapshot", "offsets", commonTable}
	for _, t := range s.backend.types {
		own = append(own, t.Table)
	}
	names, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	err = driver.Read(ctx, s.Store, annals.Call{Op: "size tables"}, func(ctx context.Context) error {
		return driver.Fetch(ctx, func(ctx context.Context) error {
			sizes = nil
			return s.backend.fresh(ctx, func(ctx context.Context, q *statements) error {
				return q.rows(ctx, `
					SELECT m.tbl_name AS name, coalesce(sum(s.pgsize) FILTER (WHERE m.type = 'table'), 0) AS bytes, coalesce(sum(s.pgsize) FILTER (WHERE m.type = 'index'), 0) AS index_bytes,
						coalesce(sum(s.ncell) FILTER (WHERE m.type = 'table' AND s.pagetype = 'leaf'), 0) AS items
					FROM sqlite_schema m CROSS JOIN dbstat s ON s.name = m.name WHERE m.tbl_name COLLATE NOCASE IN (SELECT value FROM json_each(?1))
					GROUP BY 1 ORDER BY m.tbl_name <> 'event_journal', 1`, []any{string(names)}, func(v *values) (bool, error) {
					sizes = append(sizes, ability.Size{Table: v.text("name"), Bytes: v.any64("bytes"), IndexBytes: v.any64("index_bytes"), Items: v.any64("items")})
					return true, v.corrupt()
				})
			})
		})
	})
	if len(sizes) > 0 {
		sizes[0].Fsyncs = 1
	}
	return sizes, err
}
