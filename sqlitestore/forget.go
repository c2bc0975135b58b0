package sqlitestore

import (
	"context"
	"math"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/writes"
)

// Forget is ability.Forgetter.
func (v view) Forget(ctx context.Context, f ability.Forgetting) (done bool, err error) {
	st := v.b.types.of(f.ID.Type())
	if f.DryRun {
		err = v.readTx(ctx, func(ctx context.Context, q *statements) (err error) {
			_, done, err = st.forgettable(ctx, q, f)
			return err
		})
		return done, err
	}
	var forgotten bool // the writer may set it when Forget has returned
	err = v.write(ctx, &write{apply: func(ctx context.Context, t *transaction) error {
		there, old, err := st.forgettable(ctx, t.statements, f)
		if forgotten = old; err != nil || !there || !old {
			return err
		}
		return st.forget(ctx, t, f.ID)
	}})
	if err != nil {
		return false, err
	}
	return forgotten, nil
}

// Events are deleted in ascending order, so the newest row says when the last event was deleted.
const findRemains = `SELECT
		ifnull((SELECT max(seq_nr) FROM event_journal WHERE persistence_id = ?1), 0),
		ifnull((SELECT deleted FROM event_journal WHERE persistence_id = ?1 ORDER BY seq_nr DESC LIMIT 1), 0),
		EXISTS (SELECT 1 FROM snapshot WHERE persistence_id = ?1),
		ifnull((SELECT revision FROM durable_state WHERE persistence_id = ?1), 0),
		ifnull((SELECT state_ser_id FROM durable_state WHERE persistence_id = ?1), 0),
		ifnull((SELECT db_timestamp FROM durable_state WHERE persistence_id = ?1), 0)`

// forgettable reports whether the entity has any rows, and whether all of them were deleted long enough ago. An event, a snapshot or a
// state that is not deleted is ErrConflict.
func (t *stateType) forgettable(ctx context.Context, q *statements, f ability.Forgetting) (there, old bool, err error) {
	var (
		last, revision annals.SeqNr
		eventsDeleted  int64
		snapshot       bool
		serializer     int32
		stateWritten   int64
	)
	_, err = q.row(ctx, t.remains, []any{string(f.ID)}, func(v *values) {
		last, eventsDeleted, snapshot = v.seqNr("seq_nr", 0), v.integer("deleted", 0, math.MaxInt64), v.integer("snapshot", 0, 1) == 1
		revision, serializer, stateWritten = v.seqNr("revision", 0), v.serializerID("state_ser_id"), v.micros("db_timestamp")
	})
	if err != nil {
		return false, false, err
	}
	if err := writes.Undeleted(max(last, revision), last > 0 && eventsDeleted == 0, snapshot, revision > 0 && serializer != 0); err != nil {
		return true, false, err
	}
	there = last > 0 || revision > 0
	return there, !there || max(eventsDeleted, stateWritten) <= time.Now().Add(-f.Age).UnixMicro(), nil
}

// forget removes the rows of an entity.
func (t *stateType) forget(ctx context.Context, tx *transaction, id annals.PersistenceID) error {
	if err := tx.keepClock(ctx, id); err != nil {
		return err
	}
	for _, from := range []string{`event_journal`, t.table} {
		if err := tx.exec(ctx, `DELETE FROM `+from+` WHERE persistence_id = ?`, string(id)); err != nil {
			return err
		}
	}
	return nil
}
