package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/backoff"
)

// While Forget waits for the journal's lock, writers wait, too. So it asks for the lock again and again, for forgetTime: each time waits for
// lockTime, in which short transactions end, and lockPause later comes the next. Within a transaction it asks once, for txLockTime.
const (
	forgetTime = 3 * time.Second
	lockTime   = 20 * time.Millisecond
	lockPause  = 200 * time.Millisecond
	txLockTime = time.Second
)

// Forget implements ability.Forgetter. It locks the journal against writers for the moment that its last step takes: an append that
// had looked up the last number before would store an event after numbers that have been forgotten.
func (v *view) Forget(ctx context.Context, f ability.Forgetting) (done bool, err error) {
	driver.Count(ctx, annals.Result{Requests: 1})
	if done, err := v.s.forgettable(ctx, v.reader(), f); err != nil || !done || f.DryRun {
		return done, err // without the lock
	}
	wait := lockTime
	if v.tx != nil {
		wait = txLockTime
	}
	for began := time.Now(); ; {
		err = v.write(ctx, func(ctx context.Context, q querier) error {
			return atomically(ctx, q, func(tx pgx.Tx) (err error) {
				done, err = v.s.forgetIn(ctx, tx, f, wait)
				return err
			})
		})
		if v.tx != nil || !locked(err) || time.Since(began) > forgetTime {
			return done, err
		}
		if err := backoff.Sleep(ctx, lockPause); err != nil {
			return false, err
		}
	}
}

// forgetIn locks out writers, checks again and deletes. It locks the state's row first, as state writes with an event do.
func (s *backend) forgetIn(ctx context.Context, tx pgx.Tx, f ability.Forgetting, wait time.Duration) (bool, error) {
	id, state := string(f.ID), s.stateTable(f.ID).name
	if _, err := tx.Exec(ctx, s.fill(`SELECT FROM {state} WHERE persistence_id = $1 FOR UPDATE`, "{state}", state), id); err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = "+milliseconds(wait)); err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, s.fill(`LOCK TABLE {journal} IN SHARE ROW EXCLUSIVE MODE`)); err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout TO DEFAULT"); err != nil {
		return false, err
	}
	if done, err := s.forgettable(ctx, tx, f); err != nil || !done {
		return done, err
	}
	if _, err := tx.Exec(ctx, s.fill(`DELETE FROM {journal} WHERE persistence_id = $1`), id); err != nil {
		return false, err
	}
	// An entity without a state row was not locked: a state that was written since the check stays.
	_, err := tx.Exec(ctx, s.fill(`DELETE FROM {state} WHERE persistence_id = $1 AND state_ser_id = 0
		AND NOT ($2::bigint > 0 AND db_timestamp > transaction_timestamp() - $2::bigint * interval '1 microsecond')`, "{state}", state), id, f.Age.Microseconds())
	return err == nil, err
}

// forgettable reports whether f's entity was deleted long enough ago. If it is not deleted the error is ErrConflict.
func (s *backend) forgettable(ctx context.Context, q querier, f ability.Forgetting) (bool, error) {
	var events, snapshot, state, young bool
	var last int64
	err := q.QueryRow(ctx, s.fill(`
		WITH j AS (SELECT coalesce(bool_or(NOT deleted), FALSE) AS events, coalesce(max(seq_nr), 0) AS last, max(db_timestamp) AS at
				FROM {journal} WHERE persistence_id = $1),
			s AS (SELECT coalesce(bool_or(state_ser_id <> 0), FALSE) AS state, coalesce(max(revision), 0) AS last, max(db_timestamp) AS at
				FROM {state} WHERE persistence_id = $1)
		SELECT j.events, EXISTS (SELECT FROM {snapshot} WHERE persistence_id = $1), s.state, greatest(j.last, s.last),
			coalesce($2::bigint > 0 AND greatest(j.at, s.at) > transaction_timestamp() - $2::bigint * interval '1 microsecond', FALSE)
		FROM j, s`, "{state}", s.stateTable(f.ID).name), string(f.ID), f.Age.Microseconds()).Scan(&events, &snapshot, &state, &last, &young)
	if err == nil {
		err = driver.Undeleted(annals.SeqNr(last), events, snapshot, state)
	}
	return !young && err == nil, err
}
