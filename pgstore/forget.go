package pgstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/writes"
)

// How long Forget waits for other transactions: on its own, and within a transaction of the caller, which may hold locks.
const (
	forgetTime   = 3 * time.Second
	forgetTxTime = time.Second
)

const (
	// The transactions that have written to the journal hold its lock of mode ROW EXCLUSIVE from before the snapshots of their statements to
	// their ends. So those that are not listed here have ended, or see in their next statements what this statement has seen.
	findRemains = `
		WITH j AS (SELECT coalesce(bool_or(NOT deleted), FALSE) AS events, coalesce(max(seq_nr), 0) AS last, max(db_timestamp) AS at
				FROM "event_journal" WHERE persistence_id = $1),
			s AS (SELECT coalesce(bool_or(state_ser_id <> 0), FALSE) AS state, coalesce(max(revision), 0) AS last, max(db_timestamp) AS at
				FROM "durable_state" WHERE persistence_id = $1)
		SELECT j.events, EXISTS (SELECT FROM "snapshot" WHERE persistence_id = $1), s.state, greatest(j.last, s.last), j.last, coalesce(j.at::text, ''),
			coalesce($2::bigint > 0 AND greatest(j.at, s.at) > transaction_timestamp() - $2::bigint * interval '1 microsecond', FALSE),
			coalesce(j.at >= transaction_timestamp(), FALSE),
			ARRAY(SELECT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND relation = $3::text::regclass
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
				AND mode = 'RowExclusiveLock' AND granted AND pid IS DISTINCT FROM pg_backend_pid())
		FROM j, s`
	lockState    = `SELECT FROM "durable_state" WHERE persistence_id = $1 FOR UPDATE`
	lockNewest   = `SELECT FROM "event_journal" WHERE persistence_id = $1 AND seq_nr = $2 FOR UPDATE`
	lockJournal  = `LOCK TABLE "event_journal" IN SHARE ROW EXCLUSIVE MODE`
	forgetEvents = `DELETE FROM "event_journal" WHERE persistence_id = $1 AND seq_nr <= $2 AND deleted`
	// An entity without a state row was not locked: a state that was written since the check stays.
	forgetState = `DELETE FROM "durable_state" WHERE persistence_id = $1 AND state_ser_id = 0
		AND NOT ($2::bigint > 0 AND db_timestamp > transaction_timestamp() - $2::bigint * interval '1 microsecond')`
)

// remains is what is left of an entity whose events and state are deleted.
type remains struct {
	last    annals.SeqNr // of the journal
	at      string       // the newest time of the journal's rows
	young   bool         // the last delete is less than the age ago
	own     bool         // the last delete may be one of this transaction, which others do not see yet
	writers []string     // other transactions that have written to the journal
}

// same reports whether r and o are the same rows.
func (r remains) same(o remains) bool { return r.last == o.last && r.at == o.at }

// since is r with those of its writers that are also among the writers of before, if the rows are the same.
func (r remains) since(before remains) remains {
	if r.same(before) {
		r.writers = slices.DeleteFunc(r.writers, func(w string) bool { return !slices.Contains(before.writers, w) })
	}
	return r
}

// remains reads what is left of f's entity. If it is not deleted the error is ErrConflict.
func (s *backend) remains(ctx context.Context, q querier, f ability.Forgetting) (r remains, err error) {
	var events, snapshot, state bool
	var last int64
	err = q.QueryRow(ctx, s.stateTable(f.ID).sql.remains, string(f.ID), f.Age.Microseconds(), s.journal.name).
		Scan(&events, &snapshot, &state, &last, (*int64)(&r.last), &r.at, &r.young, &r.own, &r.writers)
	if err == nil {
		err = writes.Undeleted(annals.SeqNr(last), events, snapshot, state)
	}
	return r, err
}

// Forget implements ability.Forgetter. An append that had looked up the last number before would store an event after numbers that have
// been forgotten. So it first waits for the transactions that may not have seen the delete. Those that have seen it lock the newest
// row, as the last step does: see appendDeleted.
func (v *view) Forget(ctx context.Context, f ability.Forgetting) (bool, error) {
	if f.DryRun {
		r, err := v.s.remains(ctx, v.reader(ctx), f)
		return !r.young && err == nil, err
	}
	limit := forgetTime
	if v.tx != nil {
		limit = forgetTxTime
	}
	var r remains
	for began, tries := time.Now(), 0; ; tries++ {
		var now remains
		driver.Count(ctx, annals.Result{Requests: 1})
		err := v.tryWrite(ctx, func(ctx context.Context, q querier) (err error) { // a connection for writes leads to the primary
			now, err = v.s.remains(ctx, q, f)
			return err
		})
		if err != nil || now.young {
			return false, err
		}
		if tries > 0 {
			now = now.since(r)
		}
		r = now
		r.own = r.own && v.tx != nil
		if len(r.writers) == 0 || r.own {
			done, err := v.forgetRows(ctx, f, r, limit)
			if err != nil || done {
				return done, err
			}
		}
		if time.Since(began) > limit {
			return false, fmt.Errorf("%d transactions that have written to the journal have not ended in %v", len(r.writers), limit)
		}
		if err := backoff.Wait(ctx, min(tries+2, 8)); err != nil {
			return false, err
		}
	}
}

// forgetRows locks the entity, checks again and deletes. It returns false when the rows are no longer those of r.
func (v *view) forgetRows(ctx context.Context, f ability.Forgetting, r remains, wait time.Duration) (done bool, err error) {
	err = v.writeTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := v.s.lockEntity(ctx, tx, f.ID, r, wait); err != nil {
			return err
		}
		now, err := v.s.remains(ctx, tx, f)
		if done = err == nil && !now.young && now.same(r); !done {
			return err
		}
		if _, err := tx.Exec(ctx, v.s.sql.forgetEvents, string(f.ID), int64(r.last)); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, v.s.stateTable(f.ID).sql.forgetState, string(f.ID), f.Age.Microseconds())
		return err
	})
	return done && err == nil, err
}

// lockEntity locks id against other writers until tx ends. Others lock in the same order: state writes the state before the event, and
// deletes themselves before the rows. Where no row is left, tx confirms the earlier call. What tx has deleted itself, appends still see undeleted, and lock no row: then the journal is locked.
func (s *backend) lockEntity(ctx context.Context, tx pgx.Tx, id annals.PersistenceID, r remains, wait time.Duration) error {
	batch := new(pgx.Batch)
	batch.Queue(fmt.Sprintf("SET LOCAL lock_timeout = %d", wait.Milliseconds()))
	batch.Queue(s.stateTable(id).sql.lockState, string(id))
	batch.Queue(s.sql.lockDeletes, string(id))
	if r.own {
		batch.Queue(s.sql.lockJournal)
	}
	batch.Queue(s.sql.lockNewest, string(id), int64(r.last))
	batch.Queue("SET LOCAL lock_timeout TO DEFAULT")
	batch.Queue(confirmNone)
	return tx.SendBatch(ctx, batch).Close()
}
