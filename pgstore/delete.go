package pgstore

import (
	"context"
	"strconv"
	"time"

	"github.com/annals-go/annals"
)

// keepFor is how long a row without its payload keeps the number of a deleted event taken. Without the row, a statement that began
// before the delete, or a late attempt of a write, would find the number free. Both end much earlier: see WriteTimeout and resolveFor.
const keepFor = 15 * time.Minute

// deleteAtOnce is how many rows one statement deletes, to stay far below the server's time-out.
const deleteAtOnce = 2000

// prepareDelete makes the statement for one step of DeleteTo. It takes the oldest rows that are still to do, so that readers only ever
// miss a beginning of the entity. The newest row of all becomes the plugins' marker, whatever its age: it holds the last number, and its
// time is that of the delete, but later than the row's own. The other rows keep their times, by which retries find the commits of the
// rows. Deletes of one entity run one after the other: side by side they would lock its rows in different orders.
func (s *backend) prepareDelete() {
	keep := "transaction_timestamp() - interval '" + strconv.Itoa(int(keepFor.Seconds())) + " seconds'"
	writer, deletedAt := "writer", "greatest(transaction_timestamp(), nullif(db_timestamp, 'infinity'))"
	if s.options.PluginDeletes {
		keep, writer, deletedAt = "'infinity'::timestamptz", "''", "transaction_timestamp()"
	}
	s.sql.deleteTo = s.fill(`
		WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtextextended($1, 0))),
		newest AS MATERIALIZED (SELECT max(seq_nr) AS seq_nr FROM turn, {journal} WHERE persistence_id = $1 AND seq_nr <= $2),
		step AS MATERIALIZED (SELECT count(*) AS n, max(seq_nr) AS seq_nr FROM (
			SELECT seq_nr FROM {journal} WHERE persistence_id = $1 AND seq_nr <= (SELECT seq_nr FROM newest)
				AND (NOT deleted OR seq_nr < (SELECT seq_nr FROM newest) AND db_timestamp < {keep})
			ORDER BY seq_nr LIMIT {limit}) todo),
		removed AS (
			DELETE FROM {journal} WHERE persistence_id = $1 AND seq_nr <= (SELECT seq_nr FROM step)
				AND seq_nr < (SELECT seq_nr FROM newest) AND db_timestamp < {keep}),
		stripped AS (
			UPDATE {journal} SET deleted = TRUE, event_ser_id = 0, event_ser_manifest = '', event_payload = {no payload}, adapter_manifest = '',
				tags = NULL, meta_ser_id = NULL, meta_ser_manifest = NULL, meta_payload = NULL, writer = {writer},
				db_timestamp = CASE WHEN seq_nr = (SELECT seq_nr FROM newest) THEN {deleted at} ELSE db_timestamp END
			WHERE persistence_id = $1 AND seq_nr <= (SELECT seq_nr FROM step)
				AND NOT deleted AND NOT (seq_nr < (SELECT seq_nr FROM newest) AND db_timestamp < {keep}))
		SELECT n FROM step`, "{keep}", keep, "{limit}", strconv.Itoa(deleteAtOnce), "{writer}", writer, "{deleted at}", deletedAt)
}

// DeleteTo implements annals.Journal.
func (j journal) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	for done := deleteAtOnce; done == deleteAtOnce; {
		if err := j.write(ctx, func(q querier) error {
			return q.QueryRow(ctx, j.s.sql.deleteTo, string(id), int64(to)).Scan(&done)
		}); err != nil {
			return err
		}
	}
	return nil
}
