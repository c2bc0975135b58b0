package pgstore

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
)

var _ ability.EventSizer = (*Store)(nil)

// EventsSize is ability.EventSizer. It makes one statement, which reads no rows of the table with events, or of its partitions: the server counts them.
func (s *Store) EventsSize(ctx context.Context) (size ability.Size, err error) {
	err = driver.Read(ctx, s.Store, annals.Call{Op: "size events"}, func(ctx context.Context) error {
		return driver.Fetch(ctx, func(ctx context.Context) error {
			driver.Count(ctx, annals.Result{Requests: 1})
			return s.backend.reads.QueryRow(ctx, `
				SELECT sum(greatest(pg_stat_get_live_tuples(oid), reltuples))::bigint, sum(pg_table_size(oid))::bigint, sum(pg_indexes_size(oid))::bigint,
					CASE WHEN $2 AND (current_setting('fsync') = 'off' OR current_setting('synchronous_commit') = 'off' OR bool_or(relpersistence = 'u')) THEN 0 ELSE 1 END
				FROM (SELECT to_regclass($1) UNION SELECT relid FROM pg_partition_tree(to_regclass($1))) t (own) JOIN pg_class ON oid = own AND relkind = 'r'`, s.backend.journal.name, s.backend.options.NonDurable).Scan(&size.Items, &size.Bytes, &size.IndexBytes, &size.Fsyncs)
		})
	})
	return size, err
}
