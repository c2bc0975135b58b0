package pgstore

import (
	"context"

	"github.com/annals-go/annals"
)

// These statements make one step of DeleteTo. $1 is the id, $2 the number. A step takes the oldest 2000 rows that are still to do, so that it ends
// far before the server's time-out and readers only ever miss a beginning of the entity. It returns whether there may be more. Deletes of one entity run one after the other: side by side they would lock its rows in different
// orders. So each step takes the lock of deletes in turn, the first query of the statement.
const (
	// Removes the payloads of rows, and rows that are older than 15 minutes. A row without its payload keeps the number of a deleted event taken.
	// Without the row, a statement that began before the delete, or a late attempt of a write, would find the number free. Both end much
	// earlier: see WriteTimeout and resolveFor. The newest row of all becomes the plugins' marker, whatever its age: it holds the last number,
	// and its time is that of the delete, but later than the row's own. The other rows keep their times, by which retries find the commits of
	// the rows.
	fencingDelete = `
		newest AS MATERIALIZED (SELECT max(seq_nr) AS seq_nr FROM turn, "event_journal" WHERE persistence_id = $1 AND seq_nr <= $2),
		step AS MATERIALIZED (SELECT count(*) AS n, max(seq_nr) AS seq_nr FROM (
			SELECT seq_nr FROM "event_journal" WHERE persistence_id = $1 AND seq_nr <= (SELECT seq_nr FROM newest)
				AND (NOT deleted OR seq_nr < (SELECT seq_nr FROM newest) AND db_timestamp < transaction_timestamp() - interval '15 minutes')
			ORDER BY seq_nr LIMIT 2000) todo),
		removed AS (
			DELETE FROM "event_journal" WHERE persistence_id = $1 AND seq_nr <= (SELECT seq_nr FROM step)
				AND seq_nr < (SELECT seq_nr FROM newest) AND db_timestamp < transaction_timestamp() - interval '15 minutes'),
		stripped AS (
			UPDATE "event_journal" SET deleted = TRUE, event_ser_id = 0, event_ser_manifest = '', event_payload = ''::bytea, adapter_manifest = '',
				tags = NULL, meta_ser_id = NULL, meta_ser_manifest = NULL, meta_payload = NULL,
				db_timestamp = CASE WHEN seq_nr = (SELECT seq_nr FROM newest)
					THEN greatest(transaction_timestamp(), nullif(db_timestamp, 'infinity')) ELSE db_timestamp END
			WHERE persistence_id = $1 AND seq_nr <= (SELECT seq_nr FROM step)
				AND NOT deleted AND NOT (seq_nr < (SELECT seq_nr FROM newest) AND db_timestamp < transaction_timestamp() - interval '15 minutes'))
		` + afterStep

	// Removes all rows up to $2, and the last step leaves a marker at $2, as the plugins do: below an earlier delete it is a further marker.
	// Unlike theirs it is at the last number where $2 is higher, and an entity that was never written gets none.
	pluginDelete = `
		marked AS MATERIALIZED (SELECT slice, entity_type, least($2, seq_nr) AS seq_nr FROM turn,
			(SELECT slice, entity_type, seq_nr FROM "event_journal" WHERE persistence_id = $1 AND seq_nr > 0 AND EXISTS (SELECT FROM turn)
				ORDER BY seq_nr DESC LIMIT 1 FOR KEY SHARE) last),
		step AS MATERIALIZED (SELECT count(*) AS n, max(seq_nr) AS seq_nr FROM (
			SELECT seq_nr FROM "event_journal" WHERE persistence_id = $1 AND seq_nr < (SELECT seq_nr FROM marked)
			ORDER BY seq_nr LIMIT 2000) todo),
		removed AS (DELETE FROM "event_journal" WHERE persistence_id = $1 AND seq_nr <= (SELECT seq_nr FROM step)),
		marker AS (
			INSERT INTO "event_journal" (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, deleted, writer, adapter_manifest)
			SELECT slice, entity_type, $1, marked.seq_nr, transaction_timestamp(), 0, '', ''::bytea, TRUE, '', ''
			FROM marked, step WHERE step.n < 2000
			ON CONFLICT (persistence_id, seq_nr) DO UPDATE SET deleted = TRUE, writer = '', db_timestamp = excluded.db_timestamp,
				event_ser_id = 0, event_ser_manifest = '', event_payload = ''::bytea, adapter_manifest = '',
				tags = NULL, meta_ser_id = NULL, meta_ser_manifest = NULL, meta_payload = NULL)
		` + afterStep

	afterStep = `SELECT n = 2000 FROM step LEFT JOIN LATERAL (` + confirmNone + ` AND n = 0) sent ON TRUE`
)

func (j journal) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) (err error) {
	for more := true; more && err == nil; {
		err = j.write(ctx, func(ctx context.Context, q querier) error {
			return q.QueryRow(ctx, j.s.sql.deleteTo, string(id), int64(to)).Scan(&more)
		})
	}
	return err
}
