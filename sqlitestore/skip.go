package sqlitestore

import (
	"context"
	"time"

	"github.com/annals-go/annals"
)

// SkipTo is annals.Skipper: it inserts a row for number n that looks as DeleteTo leaves the newest one.
func (v view) SkipTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	const insert = `INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp,
			event_ser_id, event_ser_manifest, event_payload, deleted, writer)
		VALUES (?, ?, ?, ?, ?, 0, '', x'', ?, ?)`
	return v.write(ctx, &write{apply: func(ctx context.Context, t *transaction) error {
		last, err := t.lastSeqNr(ctx, id)
		if err != nil {
			return err
		}
		if last > 0 {
			return &annals.Error{Last: last, Kind: annals.ErrConflict}
		}
		micros, err := t.date(ctx)
		if err != nil {
			return err
		}
		_, err = t.exec(ctx, insert, int64(id.Slice()), id.Type(), string(id), int64(n), micros,
			time.Now().UnixMicro(), annals.NewWriteID().String())
		return err
	}})
}

// SkipStateTo is annals.StateSkipper: it inserts a tombstone.
func (v view) SkipStateTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	return v.write(ctx, &write{apply: func(ctx context.Context, t *transaction) error {
		st := v.b.types.of(id.Type())
		last, _, err := st.revision(ctx, t, id)
		if err != nil {
			return err
		}
		if last > 0 {
			return &annals.Error{Last: last, Kind: annals.ErrConflict}
		}
		micros, err := t.date(ctx)
		if err != nil {
			return err
		}
		return st.store(ctx, t, annals.State{ID: id, Revision: n, Time: fromMicros(micros), Deleted: true}, true, "", nil, nil)
	}})
}
