package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/sqlrow"
)

// states is the annals.StateStore on one session.
type states struct{ *contracts }

const stateRowColumns = `persistence_id, revision, db_timestamp, state_ser_id, ifnull(state_ser_manifest, ''), state_payload, tags, crc32c`

// readState decodes stateRowColumns. A tombstone has serializer 0.
func readState(v *values) (annals.State, error) {
	s := annals.State{ID: v.id("persistence_id"), Revision: v.seqNr("revision", 1), Time: fromMicros(v.micros("db_timestamp"))}
	s.SerializerID, s.Manifest, s.Data = v.serializerID("state_ser_id"), v.text("state_ser_manifest"), v.blob("state_payload")
	s.Tags, s.Deleted = v.tags("tags"), s.SerializerID == 0
	new(checksums).verify(v, summedState(&s), false)
	if v.err != nil {
		return annals.State{}, &annals.Error{ID: s.ID, Kind: annals.ErrCorrupt, Err: fmt.Errorf("state: %w", v.err)}
	}
	if s.Deleted {
		s.Payload = annals.Payload{}
	}
	return s, nil
}

// summedState is s as its checksum sees it.
func summedState(s *annals.State) *annals.Event {
	return &annals.Event{ID: s.ID, SeqNr: s.Revision, Time: s.Time, Payload: s.Payload, Tags: s.Tags}
}

// Get implements annals.StateStore.
func (s states) Get(ctx context.Context, id annals.PersistenceID) (state annals.State, there bool, err error) {
	call := annals.Call{Op: "get state", ID: id}
	ctx, o := s.observe(ctx, call)
	if err := id.ValidateRead(call.Op, limits); err != nil {
		return annals.State{}, false, o.end(ctx, err)
	}
	text := `SELECT ` + stateRowColumns + ` FROM ` + s.types.of(id.Type()).table + ` WHERE persistence_id = ?`
	err = s.read(ctx, call, func(ctx context.Context, q *statements) error {
		return q.rows(ctx, text, []any{string(id)}, func(v *values) (_ bool, err error) {
			state, err = readState(v)
			return false, err
		})
	})
	o.requests(1)
	o.moved(0, len(state.Data))
	if err = o.end(ctx, err); err != nil {
		return annals.State{}, false, err
	}
	return state, state.Revision > 0 && !state.Deleted, nil
}

// Put implements annals.StateStore.
func (s states) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return s.change(ctx, annals.Call{Op: "put state", ID: w.ID}, w)
}

// Delete implements annals.StateStore. Additional columns stay as they are.
func (s states) Delete(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	w.Payload = annals.Payload{}
	return s.change(ctx, annals.Call{Op: "delete state", ID: w.ID}, w)
}

func (s states) change(ctx context.Context, call annals.Call, w annals.StateWrite) (annals.Receipt, error) {
	if w.Event != nil {
		event := *w.Event
		w.Event, call.Events = &event, 1
	}
	ctx, o := s.observe(ctx, call)
	if err := w.Validate(call.Op, limits); err != nil {
		return annals.Receipt{}, o.end(ctx, err)
	}
	change := stateChange{StateWrite: w, call: call, t: s.types.of(w.ID.Type())}
	var (
		receipt annals.Receipt
		err     error
	)
	apply := func(ctx context.Context, t *transaction) (err error) {
		receipt, err = change.apply(ctx, t)
		return err
	}
	if change.t.OnChange != nil {
		err = s.alone(ctx, call, apply)
	} else {
		err = s.write(ctx, call, &write{bytes: len(w.Data), apply: apply})
	}
	o.requests(1)
	o.moved(call.Events, len(w.Data))
	if err = o.end(ctx, err); err != nil {
		return annals.Receipt{}, err
	}
	return receipt, nil
}

// stateChange is one Put or Delete.
type stateChange struct {
	annals.StateWrite
	call annals.Call
	t    *stateType
}

// apply checks everything, then writes the event, the row, and what the change handler writes.
func (c *stateChange) apply(ctx context.Context, t *transaction) (annals.Receipt, error) {
	var (
		last annals.SeqNr
		text string
	)
	find := `SELECT revision, writes FROM ` + c.t.table + ` WHERE persistence_id = ?`
	_, err := t.row(ctx, find, []any{string(c.ID)}, func(v *values) { last, text = v.seqNr("revision", 1), v.optionalText("writes") })
	if err != nil {
		return annals.Receipt{}, err
	}
	writes, err := sqlrow.ParseWrites(text)
	if err != nil {
		return annals.Receipt{}, &annals.Error{Op: c.call.Op, ID: c.ID, Kind: annals.ErrCorrupt, Err: fmt.Errorf("column writes: %w", err)}
	}
	switch earlier, err := writes.Check(c.call.Op, c.StateWrite, last); {
	case err != nil:
		return annals.Receipt{}, err
	case earlier != nil:
		return annals.Receipt{SeqNr: earlier.Revision, Time: earlier.Time, Repeated: true}, nil
	}
	state := annals.State{ID: c.ID, Revision: c.After + 1, Payload: c.Payload, Tags: c.Tags, Deleted: c.SerializerID == 0}
	if c.Event != nil {
		if err := c.checkJournal(ctx, t); err != nil {
			return annals.Receipt{}, err
		}
	}
	micros, err := t.date(ctx)
	if err != nil {
		return annals.Receipt{}, err
	}
	state.Time = fromMicros(micros)
	columns, values, err := c.t.bind(c.call, state)
	if err != nil {
		return annals.Receipt{}, err
	}

	id := c.WriteID
	if id.IsZero() {
		id = annals.NewWriteID()
	}
	if c.Event != nil {
		if _, err := t.exec(ctx, insertEvent, t.eventArgs(c.ID, state.Revision, micros, id, id.String(), c.Event)...); err != nil {
			return annals.Receipt{}, err
		}
	}
	writes = writes.With(sqlrow.Write{Revision: state.Revision, Time: state.Time, WriteID: id})
	if err := c.t.store(ctx, t, state, writes.String(), columns, values); err != nil {
		return annals.Receipt{}, err
	}
	if c.t.OnChange != nil {
		err := contained(c.call, func() error { return c.t.OnChange(ctx, t.tx, state) })
		if ctx.Err() != nil && !errors.Is(err, annals.ErrPanic) {
			err = withdrawn(ctx, c.call.Op, c.ID) // whatever the handler makes of it
		}
		if err != nil {
			return annals.Receipt{}, err
		}
	}
	return annals.Receipt{SeqNr: state.Revision, Time: state.Time}, nil
}

// store writes the row of s. A column that is not named keeps its value; a tombstone names none.
func (t *stateType) store(ctx context.Context, tx *transaction, s annals.State, writes string, columns []string, values []any) error {
	names := []string{"revision", "db_timestamp", "state_ser_id", "state_ser_manifest", "state_payload", "tags", "writes", "crc32c"}
	args := []any{int64(s.Revision), s.Time.UnixMicro(), int64(s.SerializerID), s.Manifest, blob(s.Data), tagsArg(s.Tags), writes, tx.checksums.arg(summedState(&s))}
	names, args = append(names, columns...), append(args, values...)
	var text string
	if s.Revision > 1 {
		text = `UPDATE ` + t.table + ` SET ` + strings.Join(names, ` = ?, `) + ` = ? WHERE persistence_id = ?`
		args = append(args, string(s.ID))
	} else {
		text = `INSERT INTO ` + t.table + ` (` + strings.Join(names, `, `) + `, persistence_id, slice, entity_type)
			VALUES (` + strings.Repeat(`?, `, len(names)) + `?, ?, ?)`
		args = append(args, string(s.ID), int64(s.ID.Slice()), s.ID.Type())
	}
	_, err := tx.exec(ctx, text, args...)
	return err
}

// checkJournal refuses an event that would not be the next of the entity's journal.
func (c *stateChange) checkJournal(ctx context.Context, t *transaction) error {
	last, err := t.lastSeqNr(ctx, c.ID)
	if err != nil {
		return err
	}
	if last != c.After {
		return invalid(c.call.Op, c.ID, fmt.Sprintf("the write carries event %d, but the journal's last number is %d: every write of the entity must carry one",
			c.After+1, last))
	}
	return nil
}

// FindStates implements annals.StateFinder: the states of entityType whose column has value, nil for NULL, tombstones
// left out, by id.
func (c *contracts) FindStates(ctx context.Context, entityType, column string, value any) iter.Seq2[annals.State, error] {
	call := annals.Call{Op: "find states"}
	return func(yield func(annals.State, error) bool) {
		ctx, o := c.observe(ctx, call)
		err := c.findStates(ctx, o, call, entityType, column, value, yield)
		if err = brokenOff(err); o.end(ctx, err) != nil {
			yield(annals.State{}, err)
		}
	}
}

func (c *contracts) findStates(ctx context.Context, o *observed, call annals.Call, entityType, column string, value any,
	yield func(annals.State, error) bool,
) error {
	t := c.types.of(entityType)
	known := false
	for _, name := range t.Columns {
		known = known || name == column
	}
	if !known {
		return invalid(call.Op, "", "the state type has no additional column of that name")
	}
	arg, err := columnArg(value)
	if err != nil {
		return invalid(call.Op, "", err.Error())
	}
	text := `SELECT ` + stateRowColumns + ` FROM ` + t.table + ` WHERE ` + t.table + `.` + quote(column) + ` IS ? AND entity_type = ?
		AND state_ser_id <> 0 AND persistence_id > ? ORDER BY persistence_id LIMIT ?`
	last := annals.PersistenceID("")
	return pages(ctx, c, o, call, page[annals.State]{
		read: func(ctx context.Context, q *statements, p *buffer[annals.State]) error {
			return scanStates(ctx, q, p, text, arg, entityType, string(last), pageRows)
		},
		passed: func(s annals.State) { last = s.ID },
	}, yield)
}

func scanStates(ctx context.Context, q *statements, p *buffer[annals.State], text string, args ...any) error {
	return q.rows(ctx, text, args, func(v *values) (bool, error) {
		s, err := readState(v)
		if err != nil {
			return false, err
		}
		return p.add(s, len(s.Data)), nil
	})
}
