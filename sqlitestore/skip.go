package sqlitestore

import (
	"context"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/sqlrow"
)

// SkipTo implements annals.Skipper: a row for number n that looks as DeleteTo leaves the newest one.
func (c *contracts) SkipTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	const insert = `INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp,
			event_ser_id, event_ser_manifest, event_payload, deleted, writer)
		VALUES (?, ?, ?, ?, ?, 0, '', x'', ?, ?)`
	return c.skip(ctx, "skip", id, n, func(ctx context.Context, t *transaction) error {
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
	})
}

// SkipStateTo implements annals.StateSkipper: a tombstone. No change handler runs, and additional columns have their defaults.
func (c *contracts) SkipStateTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	return c.skip(ctx, "skip state", id, n, func(ctx context.Context, t *transaction) error {
		st := c.types.of(id.Type())
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
		s := annals.State{ID: id, Revision: n, Time: fromMicros(micros), Deleted: true}
		writes := sqlrow.Writes{{Revision: n, Time: s.Time, WriteID: annals.NewWriteID()}}
		return st.store(ctx, t, s, true, writes.String(), nil, nil)
	})
}

func (c *contracts) skip(ctx context.Context, op string, id annals.PersistenceID, n annals.SeqNr,
	apply func(context.Context, *transaction) error,
) error {
	call := annals.Call{Op: op, ID: id}
	ctx, o := c.observe(ctx, call)
	if err := id.ValidateSkip(op, n, limits); err != nil {
		return o.end(ctx, err)
	}
	o.requests(1)
	return o.end(ctx, c.write(ctx, call, &write{apply: apply}))
}
