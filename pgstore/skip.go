package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
)

// skipNumbers leaves the plugins' marker at $4, and one right after the last row: there it meets a concurrent writer of the entity's next
// event. It returns whether it did anything. It does for an entity without events whose last number is $5 and, where $5 is NULL, for one
// whose snapshot has the number $4 and whose journal ends before that: the plugins can remove all events without a marker, and their
// entities continue after the snapshot.
const skipNumbers = `
	WITH last AS (SELECT coalesce((SELECT seq_nr FROM "event_journal" WHERE persistence_id = $3::text ORDER BY seq_nr DESC LIMIT 1), 0) AS seq_nr),
	first AS (
		INSERT INTO "event_journal" (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, deleted, writer, adapter_manifest)
		SELECT $1::int, $2::text, $3::text, last.seq_nr + 1, transaction_timestamp(), 0, '', ''::bytea, TRUE, '', '' FROM last
		WHERE CASE WHEN $5::bigint IS NULL
			THEN last.seq_nr < $4::bigint AND EXISTS (SELECT FROM "snapshot" WHERE persistence_id = $3::text AND seq_nr = $4::bigint)
			ELSE last.seq_nr = $5::bigint AND NOT EXISTS (SELECT FROM "event_journal" WHERE persistence_id = $3::text AND NOT deleted) END
		ON CONFLICT (persistence_id, seq_nr) DO NOTHING
		RETURNING seq_nr),
	target AS (
		INSERT INTO "event_journal" (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, deleted, writer, adapter_manifest)
		SELECT $1::int, $2::text, $3::text, $4::bigint, transaction_timestamp(), 0, '', ''::bytea, TRUE, '', '' FROM first
		WHERE first.seq_nr < $4::bigint)
	SELECT EXISTS (SELECT FROM first)`

// skip makes n the last number of an entity that has no events and the last number after, or with nil of one that has a snapshot of n. It
// returns false for any other entity.
func (s *backend) skip(ctx context.Context, q querier, id annals.PersistenceID, after *annals.SeqNr, n annals.SeqNr) (won bool, err error) {
	err = q.QueryRow(ctx, s.sql.skip, id.Slice(), id.Type(), string(id), int64(n), (*int64)(after)).Scan(&won)
	return won, err
}

// skipDeletes is how many of the last numbers SkipTo deletes in one transaction with the change of the number, so that a conflict leaves them: fewer rows
// than a step of DeleteTo takes.
const skipDeletes = 1000

// SkipTo implements ability.Skipper.
func (v *view) SkipTo(ctx context.Context, id annals.PersistenceID, after, n annals.SeqNr) error {
	if after > skipDeletes {
		if last, err := v.s.lastSeqNr(ctx, v.reader(ctx), id); err != nil {
			return err
		} else if last == after {
			if err := (journal{v}).DeleteTo(ctx, id, after-skipDeletes); err != nil {
				return err
			}
		}
	}
	return v.writeTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, v.s.sql.deleteTo, string(id), int64(after)); err != nil {
			return err
		}
		if won, err := v.s.skip(ctx, tx, id, &after, n); err != nil || won {
			return err
		}
		var last int64
		var events bool
		const there = `SELECT coalesce(max(seq_nr), 0), coalesce(bool_or(NOT deleted), FALSE) FROM "event_journal" WHERE persistence_id = $1`
		if err := tx.QueryRow(ctx, v.s.fill(there), string(id)).Scan(&last, &events); err != nil {
			return err
		}
		if annals.SeqNr(last) == n && !events {
			return confirm(ctx, tx, v.s.sql.lockNewest, string(id), last) // an earlier try has done it
		}
		return conflict(after, annals.SeqNr(last))
	})
}

// SkipStateTo implements ability.StateSkipper.
func (v *view) SkipStateTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	t, last := v.s.stateTable(id), annals.SeqNr(0)
	err := v.writeTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := t.guard(ctx, tx, id); err != nil {
			return err
		}
		won, err := tx.Exec(ctx, t.sql.skip, id.Slice(), id.Type(), string(id), int64(n))
		if err == nil && won.RowsAffected() == 0 {
			err = tx.QueryRow(ctx, t.sql.last, string(id)).Scan((*int64)(&last))
		}
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) || err == nil && last > 0 { // no row: it was forgotten meanwhile
		return conflict(0, last)
	}
	return err
}
