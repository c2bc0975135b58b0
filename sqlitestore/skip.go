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
	return v.write(ctx, &write{apply: func(ctx context.Context, t *transaction) error {
		last, err := t.lastSeqNr(ctx, id)
		switch {
		case err != nil || last == n:
			return err
		case last != after:
			return &annals.Error{After: after, Last: last, Kind: annals.ErrConflict}
		case after > 0:
			newest := deletion{id: id, after: after - 1, to: after}
			err = newest.apply(ctx, t)
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
