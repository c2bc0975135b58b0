package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals/internal/findings"
)

// refusePartitions returns ErrInvalid for the data partitions of Akka's plugin, which exist since 1.2.0: the journal is in the tables
// event_journal_0, event_journal_1 and so on, and a table event_journal would be another, empty store. Partitions of one table by
// PostgreSQL itself are accepted.
func (s *backend) refusePartitions(ctx context.Context) error {
	var names []string
	for _, name := range append([]string{s.tables.Journal, s.tables.Snapshot}, s.tables.states(s.options)...) {
		if first := name + "_0"; len(first) <= maxName {
			names = append(names, s.tables.quoted(first))
		}
	}
	rows, err := s.reads.Query(ctx, `SELECT c.relname FROM unnest($1::text[]) o (name) JOIN pg_class c ON c.oid = to_regclass(o.name)
		WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'persistence_id')`, names)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil && len(found) > 0 {
		err = invalid(&findings.Fault{Code: "partitions", Schema: true, Found: fmt.Sprintf("the tables %q are data partitions of the Akka plugin (number-of-partitions above 1), which the store does not read", found),
			Do: "move their rows into one table, or rename them where they are no longer used"})
	}
	return err
}
