package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
)

// forgetLockTime is how long Forget waits for the journal's lock. Whoever writes meanwhile waits behind it.
const forgetLockTime = time.Second

// Forget is annals.Forgetter, in one transaction. It locks the journal against writers for the moment that its last step takes: an
// append that had looked before would put an event behind numbers that are gone. The age of deleted events is that of the marker
// that DeleteTo left.
func (s *Store) Forget(ctx context.Context, f annals.Forgetting) (bool, error) {
	return view{s: s}.forget(ctx, f)
}

// Forget holds the journal's lock until the transaction ends.
func (t *inTx) Forget(ctx context.Context, f annals.Forgetting) (bool, error) {
	return t.forget(ctx, f)
}

func (v view) forget(ctx context.Context, f annals.Forgetting) (done bool, err error) {
	if err := f.Validate(idLimits); err != nil {
		return false, err
	}
	c, err := v.beginWrite(ctx, "forget", f.ID, 0)
	if err != nil {
		return false, err
	}
	defer c.end(&err)
	c.result.Requests = 1
	if done, err := v.s.forgettable(c.ctx, v.reader(), f); err != nil || !done || f.DryRun {
		return done, err // without the lock, for those who are refused
	}
	for deadlocks := 0; ; deadlocks++ {
		err = atomically(c.ctx, v.writer(), func(tx pgx.Tx) error {
			done, err = v.s.forgetIn(c.ctx, tx, f)
			return err
		})
		if err == nil || v.tx != nil || !retryable(err) || deadlocks == maxDeadlocks {
			break
		}
	}
	if err != nil && v.tx == nil {
		return false, writeFault("forget", f.ID, err)
	}
	return done, err
}

// forgetIn looks once more, now that nobody writes, and forgets. The state's row is locked first, as writes that carry an
// event do.
func (s *Store) forgetIn(ctx context.Context, tx pgx.Tx, f annals.Forgetting) (bool, error) {
	id, state := string(f.ID), s.stateTable(f.ID).name
	if _, err := tx.Exec(ctx, s.fill(`SELECT FROM {state} WHERE persistence_id = $1 FOR UPDATE`, "{state}", state), id); err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = "+milliseconds(forgetLockTime)); err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, s.fill(`LOCK TABLE {journal} IN SHARE ROW EXCLUSIVE MODE`)); err != nil {
		return false, err
	}
	if done, err := s.forgettable(ctx, tx, f); err != nil || !done {
		return done, err
	}
	if _, err := tx.Exec(ctx, s.fill(`DELETE FROM {journal} WHERE persistence_id = $1`), id); err != nil {
		return false, err
	}
	// Without a row nothing was locked: what was written since the look stays.
	_, err := tx.Exec(ctx, s.fill(`DELETE FROM {state} WHERE persistence_id = $1 AND state_ser_id = 0
		AND NOT ($2::bigint > 0 AND db_timestamp > transaction_timestamp() - $2::bigint * interval '1 microsecond')`, "{state}", state), id, f.Age.Microseconds())
	return err == nil, err
}

// forgettable reports whether f's entity is deleted and old enough. What is left of it is ErrConflict.
func (s *Store) forgettable(ctx context.Context, q querier, f annals.Forgetting) (bool, error) {
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
	if err != nil {
		return false, err
	}
	for what, there := range map[string]bool{"there are events": events, "there is a snapshot": snapshot, "there is a state": state} {
		if there {
			return false, &annals.Error{Op: "forget", ID: f.ID, Last: annals.SeqNr(last), Kind: annals.ErrConflict, Err: errors.New(what)}
		}
	}
	return !young, nil
}
