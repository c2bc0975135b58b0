package pgstore

import (
	"context"
	"fmt"

	"github.com/annals-go/annals"
)

// SkipTo is annals.Skipper.
func (s *Store) SkipTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) (err error) {
	const op = "skip"
	if err := validRead(op, id); err != nil {
		return err
	}
	if n < 1 {
		return invalid(op, id, fmt.Errorf("the number is %d", n))
	}
	c, err := view{s: s}.beginWrite(ctx, op, id, 0)
	if err != nil {
		return err
	}
	defer c.end(&err)
	c.result.Requests = 1
	won, err := s.skip(c.ctx, s.write, id, n, "last.seq_nr = 0")
	if err != nil {
		return writeFault(op, id, err)
	}
	if !won {
		last, err := s.lastSeqNr(c.ctx, s.reads, id)
		if err != nil {
			return err
		}
		return conflict(op, id, 0, last)
	}
	return nil
}

// skipToSnapshot makes n the last number of an entity whose snapshot has the number n and whose journal ends before it: the plugins
// can remove all events without a marker, and their entities go on behind the snapshot. It returns false for any other entity.
func (s *Store) skipToSnapshot(ctx context.Context, q querier, id annals.PersistenceID, n annals.SeqNr) (bool, error) {
	return s.skip(ctx, q, id, n, fmt.Sprintf("last.seq_nr < $4::bigint AND EXISTS (SELECT FROM %s WHERE persistence_id = $3::text AND seq_nr = $4::bigint)", s.snapshot.name))
}

// skip makes n the last number where condition holds, and returns whether it did. It leaves the plugins' marker at n, and one right
// behind the last row: there it meets whoever writes the entity's next event in the same moment.
func (s *Store) skip(ctx context.Context, q querier, id annals.PersistenceID, n annals.SeqNr, condition string) (won bool, err error) {
	marker := func(number, from string) string {
		return fmt.Sprintf(`INSERT INTO %s (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, deleted, writer, adapter_manifest)
			SELECT $1::int, $2::text, $3::text, %s, transaction_timestamp(), 0, '', %s, TRUE, '', '' FROM %s`, s.journal.name, number, empty(s.journal, "event_payload"), from)
	}
	err = q.QueryRow(ctx, fmt.Sprintf(`WITH last AS (SELECT coalesce(max(seq_nr), 0) AS seq_nr FROM %s WHERE persistence_id = $3::text),
		first AS (%s WHERE %s ON CONFLICT (persistence_id, seq_nr) DO NOTHING RETURNING seq_nr),
		target AS (%s WHERE first.seq_nr < $4::bigint)
		SELECT EXISTS (SELECT FROM first)`, s.journal.name, marker("last.seq_nr + 1", "last"), condition, marker("$4::bigint", "first")),
		id.Slice(), id.Type(), string(id), int64(n)).Scan(&won)
	return won, err
}
