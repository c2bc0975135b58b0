package sqlitestore

import (
	"context"
	"math"
	"time"

	"github.com/annals-go/annals"
)

// SkipTo is ability.Skipper: it inserts a row for number n that looks as DeleteTo leaves the newest one.
func (v view) SkipTo(ctx context.Context, id annals.PersistenceID, after, n annals.SeqNr) error {
	const newest = `SELECT seq_nr, deleted FROM event_journal WHERE persistence_id = ? ORDER BY seq_nr DESC LIMIT 1`
	const insert = `INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp,
			event_ser_id, event_ser_manifest, event_payload, deleted, writer)
		VALUES (?, ?, ?, ?, ?, 0, '', x'', ?, ?)`
	conflict := func(last annals.SeqNr) error {
		return &annals.Error{After: after, Last: last, Kind: annals.ErrConflict}
	}
	last, err := v.Journal().LastSeqNr(ctx, id)
	switch {
	case err != nil || last == n:
	case last != after: // if event after is written next, those before it are not deleted
		err = conflict(last)
	default:
		err = v.Journal().DeleteTo(ctx, id, after-deleteBatch) // the others are deleted with the change of the number: a conflict leaves them
	}
	if err != nil {
		return err
	}
	return v.write(ctx, &write{apply: func(ctx context.Context, t *transaction) error {
		last, deleted := annals.SeqNr(0), false
		_, err := t.row(ctx, newest, []any{string(id)}, func(v *values) {
			last, deleted = v.seqNr("seq_nr", 1), v.integer("deleted", 0, math.MaxInt64) != 0
		})
		switch {
		case err != nil || last == n && deleted:
			return err
		case last != after:
			return conflict(last)
		case after > 0:
			rest := deletion{id: id, after: max(after-deleteBatch, 0), to: after}
			err = rest.apply(ctx, t)
		}
		if err != nil {
			return err
		}
		micros, err := t.date(ctx, id)
		if err != nil {
			return err
		}
		return t.exec(ctx, insert, int64(id.Slice()), id.Type(), string(id), int64(n), micros, time.Now().UnixMicro(), annals.NewWriteID().String())
	}})
}

// SkipStateTo is ability.StateSkipper: it inserts a tombstone.
func (v view) SkipStateTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	st := v.b.types.of(id.Type())
	return v.write(ctx, &write{apply: func(ctx context.Context, t *transaction) error {
		last, _, err := st.revision(ctx, t, id)
		if err == nil && last > 0 {
			err = &annals.Error{Last: last, Kind: annals.ErrConflict}
		}
		if err != nil {
			return err
		}
		micros, err := t.date(ctx, id)
		if err != nil {
			return err
		}
		return st.store(ctx, t, annals.State{ID: id, Revision: n, Time: fromMicros(micros), Deleted: true}, true, nil, nil, nil)
	}})
}
