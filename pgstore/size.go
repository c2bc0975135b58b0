package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
)

var _ ability.Sizer = (*Store)(nil)

// Sizes is ability.Sizer. It makes one statement, which reads no rows of the tables, or of their partitions: the server counts them.
func (s *Store) Sizes(ctx context.Context) (sizes []ability.Size, err error) {
	b := s.backend
	names := []string{b.journal.name, b.snapshot.name, b.offset.name, b.epoch.name}
	for _, t := range b.stateTables("") {
		names = append(names, t.name)
	}
	err = driver.Read(ctx, s.Store, annals.Call{Op: "size tables"}, func(ctx context.Context) error {
		return driver.Fetch(ctx, func(ctx context.Context) error {
			driver.Count(ctx, annals.Result{Requests: 1})
			rows, err := b.pool(ctx).Query(ctx, `
				SELECT to_regclass(name)::text, sum(greatest(pg_stat_get_live_tuples(oid), reltuples))::bigint, sum(pg_table_size(oid))::bigint, sum(pg_indexes_size(oid))::bigint,
					CASE WHEN nr > 1 OR $2 AND (current_setting('fsync') = 'off' OR current_setting('synchronous_commit') = 'off' OR bool_or(relpersistence = 'u')) THEN 0 ELSE 1 END
				FROM unnest($1::text[]) WITH ORDINALITY n (name, nr) CROSS JOIN LATERAL (SELECT to_regclass(name) UNION SELECT relid FROM pg_partition_tree(to_regclass(name))) t (own)
					JOIN pg_class ON oid = own AND relkind = 'r'
				GROUP BY nr, name ORDER BY nr`, names, b.options.NonDurable)
			if err != nil {
				return err
			}
			sizes, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (size ability.Size, err error) {
				return size, row.Scan(&size.Table, &size.Items, &size.Bytes, &size.IndexBytes, &size.Fsyncs)
			})
			return err
		})
	})
	return sizes, err
}
