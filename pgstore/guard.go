package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

const (
	// The locks of entities, until the transaction ends. All transactions lock in the same order, so they do not deadlock. The locks differ
	// from those of DeleteTo and Forget, which the user's function may have taken in any order. There are 4,096 of them, fewer than fit into
	// the server's table of locks: entities that share one only wait for each other.
	lockEntities = `SELECT pg_advisory_xact_lock(key), current_setting('transaction_isolation')
		FROM (SELECT DISTINCT hashtextextended('annals guard', 0) + (hashtextextended(id, 0) & 4095) AS key FROM unnest($1::text[]) AS id ORDER BY key) keys`

	// The number that the entity $1 has now, where the transaction has read $2. The plugins can remove all events of an entity that has a
	// snapshot, whose number a recovery returns then.
	guardedNumber = `SELECT CASE WHEN seq_nr < $2::bigint AND EXISTS (SELECT FROM "snapshot" WHERE persistence_id = $1 AND seq_nr = $2::bigint)
		THEN $2::bigint ELSE seq_nr END FROM (` + lastNumber + ` AS seq_nr) last`
)

// guard locks what the transaction has read and written, then looks whether the numbers are those that were read: see
// docs/adr/0058-guarded-reads.md. The statements are sent together; each sees what was committed before it began.
func (v *view) guard(ctx context.Context, read []driver.Seen, written []annals.PersistenceID) error {
	ids := make([]string, 0, len(read)+len(written))
	for _, r := range read {
		ids = append(ids, string(r.ID))
	}
	for _, id := range written {
		ids = append(ids, string(id))
	}
	batch := &pgx.Batch{}
	batch.Queue(v.s.sql.lockEntities, ids).QueryRow(func(row pgx.Row) error {
		var isolation string
		if err := row.Scan(nil, &isolation); err != nil || isolation == "read committed" {
			return err
		}
		return invalid(fmt.Errorf("the isolation level is %q, in which the store does not see whether what was read has changed", isolation))
	})
	for _, r := range read {
		sql, args := v.s.sql.guarded, []any{string(r.ID), int64(r.Number)}
		if r.State {
			sql, args = v.s.stateTable(r.ID).sql.last, args[:1]
		}
		batch.Queue(sql, args...).QueryRow(func(row pgx.Row) error {
			var n annals.SeqNr
			if err := row.Scan((*int64)(&n)); err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			if n != r.Number {
				return r.Conflict(n)
			}
			return nil
		})
	}
	return v.tx.tx.SendBatch(ctx, batch).Close()
}
