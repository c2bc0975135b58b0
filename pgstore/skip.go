package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
)

// Both statements leave the plugins' marker at $4, and one right after the last row: there they meet a concurrent writer of
// the entity's next event. They return whether they did anything.
func (s *backend) prepareSkip() {
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

	// The plugins can remove all events without a marker. Their entities continue after the snapshot.
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
func (s *backend) skipToSnapshot(ctx context.Context, q querier, id annals.PersistenceID, n annals.SeqNr) (won bool, err error) {
	err = q.QueryRow(ctx, s.sql.skipToSnapshot, id.Slice(), id.Type(), string(id), int64(n)).Scan(&won)
	return won, err
}

// SkipTo implements annals.Skipper.
func (v *view) SkipTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	var won bool
	if err := v.write(ctx, func(q querier) error {
		return q.QueryRow(ctx, v.s.sql.skip, id.Slice(), id.Type(), string(id), int64(n)).Scan(&won)
	}); err != nil || won {
		return err
	}
	last, err := v.s.lastSeqNr(ctx, v.reader(), id)
	if err != nil {
		return err
	}
	return conflict(0, last)
}

// SkipStateTo implements annals.StateSkipper.
func (v *view) SkipStateTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	t, last := v.s.stateTable(id), annals.SeqNr(0)
	err := v.write(ctx, func(q querier) error {
		return atomically(ctx, q, func(tx pgx.Tx) error {
			if err := t.guard(ctx, tx, id); err != nil {
				return err
			}
			won, err := tx.Exec(ctx, t.sql.skip, id.Slice(), id.Type(), string(id), int64(n))
			if err == nil && won.RowsAffected() == 0 {
				err = tx.QueryRow(ctx, t.sql.last, string(id)).Scan((*int64)(&last))
			}
			return err
		})
	})
	if errors.Is(err, pgx.ErrNoRows) || err == nil && last > 0 { // no row: it was forgotten meanwhile
		return conflict(0, last)
	}
	return err
}
