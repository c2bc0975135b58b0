package sqlitestore

import (
	"context"
	"time"

	"github.com/annals-go/annals"
)

// SkipTo is ability.Skipper: it inserts a row for number n that looks as DeleteTo leaves the newest one.
func (v view) SkipTo(ctx context.Context, id annals.PersistenceID, after, n annals.SeqNr) error {
	const insert = `INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp,
			event_ser_id, event_ser_manifest, event_payload, deleted, writer)
		VALUES (?, ?, ?, ?, ?, 0, '', x'', ?, ?)`
	last, err := v.Journal().LastSeqNr(ctx, id)
	if err == nil && last == after {
		err = v.Journal().DeleteTo(ctx, id, after-1)
	}
	if err != nil {
		return err
	}
	return v.skip(ctx, func(ctx context.Context, t *transaction) (done bool, err error) {
		last, err := t.lastSeqNr(ctx, id)
		switch {
		case err != nil || last == n:
			return true, err
		case last != after:
			return false, &annals.Error{After: after, Last: last, Kind: annals.ErrConflict}
		case after == 0:
			return false, nil
		}
		newest := deletion{id: id, from: after, to: after}
		return false, newest.apply(ctx, t)
	}, func(ctx context.Context, t *transaction, micros int64) error {
		_, err := t.exec(ctx, insert, int64(id.Slice()), id.Type(), string(id), int64(n), micros, time.Now().UnixMicro(), annals.NewWriteID().String())
		return err
	})
}

// SkipStateTo is ability.StateSkipper: it inserts a tombstone.
func (v view) SkipStateTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	st := v.b.types.of(id.Type())
	last := `SELECT ifnull(max(revision), 0) FROM ` + st.table + ` WHERE persistence_id = ?`
	return v.skip(ctx, func(ctx context.Context, t *transaction) (bool, error) {
		n, err := t.last(ctx, last, id)
		if n > 0 {
			err = &annals.Error{Last: n, Kind: annals.ErrConflict}
		}
		return false, err
	}, func(ctx context.Context, t *transaction, micros int64) error {
		return st.store(ctx, t, annals.State{ID: id, Revision: n, Time: fromMicros(micros), Deleted: true}, true, nil, nil, nil)
	})
}

// skip calls insert with the time of a write, unless check says that nothing is left to do.
func (v view) skip(ctx context.Context, check func(context.Context, *transaction) (done bool, err error), insert func(context.Context, *transaction, int64) error) error {
	return v.write(ctx, &write{apply: func(ctx context.Context, t *transaction) error {
		done, err := check(ctx, t)
		if done || err != nil {
			return err
		}
		micros, err := t.date(ctx)
		if err != nil {
			return err
		}
		return insert(ctx, t, micros)
	}})
}
