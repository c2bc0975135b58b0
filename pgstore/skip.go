package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
)

// Both statements leave the plugins' marker at $4, and one right behind the last row: there they meet a concurrent writer of
// the entity's next event. They return whether they did anything.
func (s *Store) prepareSkip() {
	s.sql.skip = s.fill(`
		WITH last AS (SELECT coalesce(max(seq_nr), 0) AS seq_nr FROM {journal} WHERE persistence_id = $3::text),
		first AS (
			INSERT INTO {journal} (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, deleted, writer, adapter_manifest)
			SELECT $1::int, $2::text, $3::text, 1, transaction_timestamp(), 0, '', {no payload}, TRUE, '', '' FROM last
			WHERE last.seq_nr = 0
			ON CONFLICT (persistence_id, seq_nr) DO NOTHING
			RETURNING seq_nr),
		target AS (
			INSERT INTO {journal} (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, deleted, writer, adapter_manifest)
			SELECT $1::int, $2::text, $3::text, $4::bigint, transaction_timestamp(), 0, '', {no payload}, TRUE, '', '' FROM first
			WHERE first.seq_nr < $4::bigint)
		SELECT EXISTS (SELECT FROM first)`)

	// The plugins can remove all events without a marker. Their entities go on behind the snapshot.
	s.sql.skipToSnapshot = s.fill(`
		WITH last AS (SELECT coalesce(max(seq_nr), 0) AS seq_nr FROM {journal} WHERE persistence_id = $3::text),
		first AS (
			INSERT INTO {journal} (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, deleted, writer, adapter_manifest)
			SELECT $1::int, $2::text, $3::text, last.seq_nr + 1, transaction_timestamp(), 0, '', {no payload}, TRUE, '', '' FROM last
			WHERE last.seq_nr < $4::bigint AND EXISTS (SELECT FROM {snapshot} WHERE persistence_id = $3::text AND seq_nr = $4::bigint)
			ON CONFLICT (persistence_id, seq_nr) DO NOTHING
			RETURNING seq_nr),
		target AS (
			INSERT INTO {journal} (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, deleted, writer, adapter_manifest)
			SELECT $1::int, $2::text, $3::text, $4::bigint, transaction_timestamp(), 0, '', {no payload}, TRUE, '', '' FROM first
			WHERE first.seq_nr < $4::bigint)
		SELECT EXISTS (SELECT FROM first)`)
}

// skipToSnapshot makes n the last number of an entity whose snapshot has the number n and whose journal ends before it. It returns
// false for any other entity.
func (s *Store) skipToSnapshot(ctx context.Context, q querier, id annals.PersistenceID, n annals.SeqNr) (won bool, err error) {
	err = q.QueryRow(ctx, s.sql.skipToSnapshot, id.Slice(), id.Type(), string(id), int64(n)).Scan(&won)
	return won, err
}

// SkipTo implements annals.Skipper.
func (s *Store) SkipTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) (err error) {
	const op = "skip"
	if err := id.ValidateSkip(op, n, idLimits); err != nil {
		return err
	}
	c, err := view{s: s}.beginWrite(ctx, op, id, 0)
	if err != nil {
		return err
	}
	defer c.end(&err)
	c.result.Requests = 1
	var won bool
	if err := s.write.QueryRow(c.ctx, s.sql.skip, id.Slice(), id.Type(), string(id), int64(n)).Scan(&won); err != nil {
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

// SkipStateTo implements annals.StateSkipper.
func (s *Store) SkipStateTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) (err error) {
	const op = "skip state"
	if err := id.ValidateSkip(op, n, idLimits); err != nil {
		return err
	}
	c, err := view{s: s}.beginWrite(ctx, op, id, 0)
	if err != nil {
		return err
	}
	defer c.end(&err)
	c.result.Requests = 1
	t, last := s.stateTable(id), int64(0)
	err = atomically(c.ctx, s.write, func(tx pgx.Tx) error {
		if err := t.guard(c.ctx, tx, id); err != nil {
			return err
		}
		won, err := tx.Exec(c.ctx, t.sql.skip, id.Slice(), id.Type(), string(id), int64(n))
		if err == nil && won.RowsAffected() == 0 {
			err = tx.QueryRow(c.ctx, t.sql.last, string(id)).Scan(&last)
		}
		return err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows): // forgotten meanwhile
		return conflict(op, id, 0, 0)
	case err != nil:
		return writeFault(op, id, err)
	case last > 0:
		return conflict(op, id, 0, annals.SeqNr(last))
	}
	return nil
}
