package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// lockEntities takes a lock for each entity, until the transaction ends. All transactions lock in the same order, so they do not deadlock.
// The locks differ from those of DeleteTo and Forget, which the user's function may have taken in any order.
const lockEntities = `SELECT pg_advisory_xact_lock(key)
	FROM (SELECT DISTINCT hashtextextended('annals guard ' || id, 0) AS key FROM unnest($1::text[]) AS id ORDER BY key) keys`

// Guard implements driver.Guarder. It locks what the transaction has read and written, then looks whether the numbers are those that were read: see
// docs/adr/0058-guarded-reads.md. The statements are sent together; each sees what was committed before it began.
func (v *view) Guard(ctx context.Context, read []driver.Seen, written []annals.PersistenceID) error {
	ids := make([]string, 0, len(read)+len(written))
	for _, r := range read {
		ids = append(ids, string(r.ID))
	}
	for _, id := range written {
		ids = append(ids, string(id))
	}
	batch := &pgx.Batch{}
	batch.Queue(lockEntities, ids)
	for _, r := range read {
		last := v.s.sql.last
		if r.State {
			last = v.s.tableOf(r.ID.Type()).sql.last
		}
		batch.Queue(last, string(r.ID)).QueryRow(func(row pgx.Row) error {
			var n annals.SeqNr
			if err := row.Scan((*int64)(&n)); err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			if n != r.Number {
				return &annals.Error{ID: r.ID, Last: n, Kind: annals.ErrConflict, Err: fmt.Errorf("the transaction has read number %d", r.Number)}
			}
			return nil
		})
	}
	return v.tx.tx.SendBatch(ctx, batch).Close()
}
