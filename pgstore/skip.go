package pgstore

import (
	"context"
	"fmt"

	"github.com/annals-go/annals"
)

// SkipTo is annals.Skipper. It leaves the plugins' marker at n, and one at 1: there it meets whoever writes the entity's first
// event in the same moment.
func (s *Store) SkipTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) (err error) {
	const op = "skip"
	if err := validRead(op, id); err != nil {
		return err
	}
	if n < 1 {
		return invalid(op, id, fmt.Errorf("the number is %d", n))
	}
	c, err := view{s: s}.begin(ctx, op, id, 0)
	if err != nil {
		return err
	}
	defer c.end(&err)
	c.result.Requests = 1
	insert := fmt.Sprintf(`INSERT INTO %s (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, deleted, writer, adapter_manifest)
		SELECT $1::int, $2::text, $3::text, %%s, transaction_timestamp(), 0, '', %s, TRUE, '', ''`, s.journal.name, empty(s.journal, "event_payload"))
	var won bool
	err = s.write.QueryRow(c.ctx, fmt.Sprintf(`WITH first AS (%s WHERE NOT EXISTS (SELECT FROM %s WHERE persistence_id = $3::text)
			ON CONFLICT (persistence_id, seq_nr) DO NOTHING RETURNING seq_nr),
		last AS (%s FROM first WHERE $4::bigint > 1)
		SELECT EXISTS (SELECT FROM first)`, fmt.Sprintf(insert, "1"), s.journal.name, fmt.Sprintf(insert, "$4::bigint")),
		id.Slice(), id.Type(), string(id), int64(n)).Scan(&won)
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
