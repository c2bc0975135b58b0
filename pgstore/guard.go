package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// lockKey is the expression of the key of an advisory lock of what in a table, whose quoted name is the value of inTable. These locks are those of a
// whole database: the table is in the key, so that stores with other tables, as in other schemas, do not wait. Kinds of locks have other keys. All
// processes that use a table must make the same keys, whatever their version of Annals is. The plugins take no such locks.
func lockKey(kind, what, inTable string) string {
	return "hashtextextended('annals " + kind + " ' || " + what + ", coalesce(to_regclass(" + inTable + ")::oid::bigint, 0))"
}

// lockEntities takes the locks of the entities $1 in the tables $2, until the transaction ends. All transactions lock in the same order, so they do
// not deadlock. The locks differ from those of DeleteTo and Forget, which the user's function may have taken in any order. There are 2,048 of a table:
// those of the journal and a table of states fit into the server's table of locks. Entities that share a lock only wait for each other.
func lockEntities() string {
	return `SELECT pg_advisory_xact_lock(key), current_setting('transaction_isolation') FROM (SELECT DISTINCT ` +
		lockKey("guard", "(hashtextextended(id, 0) & 2047)", "in_table") + ` AS key FROM unnest($1::text[], $2::text[]) AS e (id, in_table) ORDER BY key) keys`
}

const (
	// The number that the entity $1 has now, where the transaction has read $2. The plugins can remove all events of an entity that has a
	// snapshot, whose number a recovery returns then.
	guardedNumber = `SELECT CASE WHEN seq_nr < $2::bigint AND EXISTS (SELECT FROM "snapshot" WHERE persistence_id = $1 AND seq_nr = $2::bigint)
		THEN $2::bigint ELSE seq_nr END FROM (` + lastNumber + ` AS seq_nr) last`
)

// guard locks what the transaction has read and written, then looks whether the numbers are those that were read: see
// docs/adr/0058-guarded-reads.md. The statements are sent together; each sees what was committed before it began.
func (v *view) guard(ctx context.Context, read, written []driver.Seen) error {
	var ids, tables []string
	for _, r := range slices.Concat(read, written) {
		t := v.s.journal
		if r.State {
			t = v.s.stateTable(r.ID).table
		}
		ids, tables = append(ids, string(r.ID)), append(tables, t.name)
	}
	batch := &pgx.Batch{}
	batch.Queue(v.s.sql.lockEntities, ids, tables).QueryRow(func(row pgx.Row) error {
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
