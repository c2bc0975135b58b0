package pgstore

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
)

var _ ability.EventSizer = (*Store)(nil)

// EventsSize is ability.EventSizer. It makes one statement, which reads no rows of the table with events: the server counts them.
func (s *Store) EventsSize(ctx context.Context) (size ability.Size, err error) {
	err = driver.Read(ctx, s.Store, annals.Call{Op: "size events"}, func(ctx context.Context) error {
		return driver.Fetch(ctx, func(ctx context.Context) error {
			driver.Count(ctx, annals.Result{Requests: 1})
			return s.backend.reads.QueryRow(ctx, `
				SELECT greatest(pg_stat_get_live_tuples(oid), reltuples)::bigint, pg_table_size(oid), pg_indexes_size(oid),
					CASE WHEN $2 AND (current_setting('fsync') = 'off' OR current_setting('synchronous_commit') = 'off') THEN 0 ELSE 1 END
				FROM pg_class WHERE oid = to_regclass($1)`, s.backend.journal.name, s.backend.options.NonDurable).Scan(&size.Items, &size.Bytes, &size.IndexBytes, &size.Fsyncs)
		})
	})
	return size, err
}
