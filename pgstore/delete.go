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

// prepareDelete makes the statement for one step of DeleteTo. $1 is the id, $2 the number. A step takes the oldest rows that are still to
// do, so that readers only ever miss a beginning of the entity, and returns how many rows it took. Deletes of one entity run one after
// the other: side by side they would lock its rows in different orders.
func (s *backend) prepareDelete() {
	s.sql.deleteTo = s.fencingDelete()
	if s.options.PluginDeletes {
		s.sql.deleteTo = s.pluginDelete()
	}
}

// fencingDelete removes the payloads of rows, and rows that are old enough. The newest row of all becomes the plugins' marker, whatever
// its age: it holds the last number, and its time is that of the delete, but later than the row's own. The other rows keep their times,
// by which retries find the commits of the rows.
func (s *backend) fencingDelete() string {
	return s.fill(`
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
			UPDATE {journal} SET deleted = TRUE, {stripped},
				db_timestamp = CASE WHEN seq_nr = (SELECT seq_nr FROM newest)
					THEN greatest(transaction_timestamp(), nullif(db_timestamp, 'infinity')) ELSE db_timestamp END
			WHERE persistence_id = $1 AND seq_nr <= (SELECT seq_nr FROM step)
				AND NOT deleted AND NOT (seq_nr < (SELECT seq_nr FROM newest) AND db_timestamp < {keep}))
		SELECT n FROM step`, "{keep}", "transaction_timestamp() - interval '"+strconv.Itoa(int(keepFor.Seconds()))+" seconds'",
		"{limit}", strconv.Itoa(deleteAtOnce), "{stripped}", s.stripped())
}

// pluginDelete removes all rows up to $2, and the last step leaves a marker at $2, as the plugins do: below an earlier delete it is a
// further marker. Unlike theirs it is at the last number where $2 is higher, and an entity that was never written gets none.
func (s *backend) pluginDelete() string {
	return s.fill(`
		WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtextextended($1, 0))),
		marked AS MATERIALIZED (SELECT slice, entity_type, least($2, seq_nr) AS seq_nr FROM turn,
			(SELECT slice, entity_type, seq_nr FROM {journal} WHERE persistence_id = $1 AND seq_nr > 0 AND EXISTS (SELECT FROM turn)
				ORDER BY seq_nr DESC LIMIT 1 FOR KEY SHARE) last),
		step AS MATERIALIZED (SELECT count(*) AS n, max(seq_nr) AS seq_nr FROM (
			SELECT seq_nr FROM {journal} WHERE persistence_id = $1 AND seq_nr < (SELECT seq_nr FROM marked)
			ORDER BY seq_nr LIMIT {limit}) todo),
		removed AS (DELETE FROM {journal} WHERE persistence_id = $1 AND seq_nr <= (SELECT seq_nr FROM step)),
		marker AS (
			INSERT INTO {journal} (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, deleted, writer, adapter_manifest)
			SELECT slice, entity_type, $1, marked.seq_nr, transaction_timestamp(), 0, '', {no payload}, TRUE, '', ''
			FROM marked, step WHERE step.n < {limit}
			ON CONFLICT (persistence_id, seq_nr) DO UPDATE SET deleted = TRUE, writer = '', db_timestamp = excluded.db_timestamp, {stripped})
		SELECT n FROM step`, "{limit}", strconv.Itoa(deleteAtOnce), "{stripped}", s.stripped())
}

// stripped sets the columns of an event's payload and metadata to those of a marker.
func (s *backend) stripped() string {
	return `event_ser_id = 0, event_ser_manifest = '', event_payload = ` + noPayload(s.journal, "event_payload") + `, adapter_manifest = '',
				tags = NULL, meta_ser_id = NULL, meta_ser_manifest = NULL, meta_payload = NULL`
}

// DeleteTo implements annals.Journal.
func (j journal) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	for done := deleteAtOnce; done == deleteAtOnce; {
		if err := j.write(ctx, func(ctx context.Context, q querier) error {
			return q.QueryRow(ctx, j.s.sql.deleteTo, string(id), int64(to)).Scan(&done)
		}); err != nil {
			return err
		}
	}
	return nil
}
