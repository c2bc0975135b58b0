package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/annals-go/annals"
)

// keepFor is how long a deleted event's number stays taken by a stripped row. A statement that began before the delete,
// or a late try of a write, would find a removed one free. Both end long before that: WriteTimeout and resolveFor.
const keepFor = 15 * time.Minute

// deleteAtOnce is how many rows one statement deletes, to stay far below the server's time-out.
const deleteAtOnce = 2000

// prepareDelete: a step of DeleteTo. It takes the oldest rows that are still to do, so that readers only ever see a beginning
// of the entity gone. The newest of all becomes the plugins' marker, whatever its age: it holds the last number, and when the
// delete was. The other rows keep their times, by which retries find the commits that they are of.
func (s *Store) prepareDelete() {
	keep, marker := fmt.Sprintf("transaction_timestamp() - interval '%d seconds'", int(keepFor.Seconds())), ""
	deletedAt := "greatest(transaction_timestamp(), " + finite("db_timestamp") + ")" // behind it times go on rising
	if s.options.PluginDeletes {
		keep, marker, deletedAt = "'infinity'::timestamptz", ", writer = ''", "transaction_timestamp()"
	}
	old := "seq_nr < (SELECT seq_nr FROM newest) AND db_timestamp < " + keep // else it stays, stripped
	// Deletes of one entity go one after the other: side by side they would lock its rows in different orders.
	s.sql.deleteTo = fmt.Sprintf(`WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtextextended($1, 0))),
		newest AS MATERIALIZED (SELECT max(seq_nr) AS seq_nr FROM turn, %[1]s WHERE persistence_id = $1 AND seq_nr <= $2),
		step AS MATERIALIZED (SELECT count(*) AS n, max(seq_nr) AS seq_nr FROM (
			SELECT seq_nr FROM %[1]s WHERE persistence_id = $1 AND seq_nr <= (SELECT seq_nr FROM newest) AND (NOT deleted OR %[2]s)
			ORDER BY seq_nr LIMIT %[3]d) todo),
		removed AS (DELETE FROM %[1]s WHERE persistence_id = $1 AND seq_nr <= (SELECT seq_nr FROM step) AND %[2]s),
		stripped AS (UPDATE %[1]s SET deleted = TRUE, event_ser_id = 0, event_ser_manifest = '', event_payload = %[4]s, adapter_manifest = '',
				tags = NULL, meta_ser_id = NULL, meta_ser_manifest = NULL, meta_payload = NULL%[5]s,
				db_timestamp = CASE WHEN seq_nr = (SELECT seq_nr FROM newest) THEN %[6]s ELSE db_timestamp END
			WHERE persistence_id = $1 AND seq_nr <= (SELECT seq_nr FROM step) AND NOT deleted AND NOT (%[2]s))
		SELECT n FROM step`, s.journal.name, old, deleteAtOnce, empty(s.journal, "event_payload"), marker, deletedAt)
}

func (j journal) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) (err error) {
	if err := validRead("delete events", id); err != nil {
		return err
	}
	c, err := j.beginWrite(ctx, "delete events", id, 0)
	if err != nil {
		return err
	}
	defer c.end(&err)
	for deadlocks := 0; ; {
		var done int
		err := j.writer().QueryRow(c.ctx, j.s.sql.deleteTo, string(id), int64(to)).Scan(&done)
		c.result.Requests++
		switch {
		case j.tx == nil && retryable(err) && deadlocks < maxDeadlocks:
			deadlocks++
		case err != nil && j.tx == nil:
			return writeFault("delete events", id, err)
		case err != nil:
			return err
		case done < deleteAtOnce:
			return nil
		}
	}
}
