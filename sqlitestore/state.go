package sqlitestore

import (
	"context"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/contexts"
	"github.com/annals-go/annals/internal/sqltext"
	"github.com/annals-go/annals/internal/statetype"
	"github.com/annals-go/annals/internal/writes"
)

// states is the annals.StateStore of a view.
type states struct{ view }

// The columns of a state, and the same without the payload.
const (
	stateColumns = `persistence_id, revision, db_timestamp, state_ser_id, ifnull(state_ser_manifest, ''), state_payload, tags,
		meta_ser_id, meta_ser_manifest, meta_payload, crc32c`
	stateKeys = `persistence_id, revision, db_timestamp, state_ser_id, ifnull(state_ser_manifest, ''), x'', tags,
		meta_ser_id, meta_ser_manifest, meta_payload, NULL`
)

// readState decodes stateColumns. A tombstone has serializer 0.
func readState(v *values) (annals.State, error) {
	s := annals.State{ID: v.id("persistence_id"), Revision: v.seqNr("revision", 1), Time: fromMicros(v.micros("db_timestamp"))}
	s.SerializerID, s.Manifest, s.Data = v.serializerID("state_ser_id"), v.text("state_ser_manifest"), v.blob("state_payload")
	s.Tags, s.Metadata, s.Deleted = v.tags("tags"), v.metadata(), s.SerializerID == 0
	new(checksums).verify(v, summedState(&s), false)
	if v.err != nil {
		return annals.State{}, v.damage(ability.State, s.ID, s.Revision, "state")
	}
	if s.Deleted {
		s.Payload = annals.Payload{}
	}
	return s, nil
}

// summedState is s in the form of which the checksum is computed.
func summedState(s *annals.State) *annals.Event {
	return &annals.Event{ID: s.ID, SeqNr: s.Revision, Time: s.Time, Payload: s.Payload, Tags: s.Tags, Metadata: s.Metadata}
}

func (s states) Get(ctx context.Context, id annals.PersistenceID) (state annals.State, there bool, err error) {
	err = s.read(ctx, func(ctx context.Context, q *statements) error {
		return q.rows(ctx, s.b.types.of(id.Type()).get, []any{string(id)}, func(v *values) (_ bool, err error) {
			state, err = readState(v)
			return false, err
		})
	})
	if err != nil {
		return annals.State{}, false, err
	}
	return state, state.Revision > 0 && !state.Deleted, nil
}

// Delete is annals.StateStore. Additional columns stay as they are.
func (s states) Delete(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return s.Put(ctx, w)
}

func (s states) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	if w.Event != nil {
		event := *w.Event // the caller may change it when ctx ends before the write
		w.Event = &event
	}
	change := stateChange{StateWrite: w, t: s.b.types.of(w.ID.Type()), self: s.b.self}
	var (
		receipt annals.Receipt // the writer may set it when Put has returned
		err     error
	)
	apply := func(ctx context.Context, t *transaction) (err error) {
		receipt, err = change.apply(ctx, t)
		return err
	}
	if change.t.OnChange != nil {
		err = s.alone(ctx, apply)
	} else {
		err = s.write(ctx, &write{bytes: len(w.Data), plain: change.t.Bind == nil, single: w.Event == nil, apply: apply})
	}
	if err != nil {
		return annals.Receipt{}, err
	}
	return receipt, nil
}

// stateChange is one Put or Delete.
type stateChange struct {
	annals.StateWrite
	t    *stateType
	self *Store
}

// apply checks the write, then stores the event and the state, and runs the change handler.
func (c *stateChange) apply(ctx context.Context, t *transaction) (annals.Receipt, error) {
	if c.After == 0 && c.Event == nil && c.t == common { // a state that is there is not read, but the table refuses another row of it
		if receipt, err := c.put(ctx, t, 0, nil); !isTwice(err) {
			return receipt, err
		}
	}
	last, text, err := c.t.revision(ctx, t, c.ID)
	if err != nil {
		return annals.Receipt{}, err
	}
	earlier, err := writes.Parse(text)
	if err != nil {
		return annals.Receipt{}, &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("column writes: %w", err)}
	}
	switch repeated, err := earlier.Check(c.StateWrite, last); {
	case err != nil:
		return annals.Receipt{}, err
	case repeated != nil:
		return annals.Receipt{SeqNr: repeated.Revision, Time: repeated.Time, Repeated: true}, nil
	}
	return c.put(ctx, t, last, earlier)
}

// put is apply without the check. last is the revision of the state, and earlier its last writes.
func (c *stateChange) put(ctx context.Context, t *transaction, last annals.SeqNr, earlier writes.List) (annals.Receipt, error) {
	state := annals.State{ID: c.ID, Revision: c.After + 1, Payload: c.Payload, Tags: c.Tags, Metadata: c.Metadata, Deleted: c.SerializerID == 0}
	if c.Event != nil {
		n, err := t.lastSeqNr(ctx, c.ID)
		if err == nil && n != c.After {
			err = writes.EventMisfit(c.After, n)
		}
		if err == nil {
			err = checkTimes(*c.Event)
		}
		if err != nil {
			return annals.Receipt{}, err
		}
	}
	micros, err := t.date(ctx, c.ID)
	if err != nil {
		return annals.Receipt{}, err
	}
	state.Time = fromMicros(micros)
	columns, values, err := statetype.Bind(c.t.StateType, state, columnArg)
	if err != nil {
		return annals.Receipt{}, err
	}

	if c.Event != nil {
		if err := t.exec(ctx, insertEvent, t.eventArgs(c.ID, state.Revision, micros, c.WriteID, c.WriteID.String(), c.Event)...); err != nil {
			return annals.Receipt{}, err
		}
		t.clock.pass(eventTime(c.Event, micros))
	}
	all := earlier.With(writes.Write{Revision: state.Revision, Time: state.Time, WriteID: c.WriteID})
	if err := c.t.store(ctx, t, state, last == 0, all, columns, values); err != nil {
		return annals.Receipt{}, err
	}
	if c.t.OnChange != nil {
		ctx := contexts.WithTx(ctx, c.self)
		if err := statetype.Handle(ctx, func() error { return c.t.OnChange(ctx, t.tx, state) }, breaksRule); err != nil {
			return annals.Receipt{}, err
		}
	}
	return annals.Receipt{SeqNr: state.Revision, Time: state.Time}, nil
}

// revision returns the last revision of a state, 0 where there is none, and the value of the column writes.
func (t *stateType) revision(ctx context.Context, tx *transaction, id annals.PersistenceID) (last annals.SeqNr, writes string, err error) {
	_, err = tx.row(ctx, t.last, []any{string(id)}, func(v *values) { last, writes = v.seqNr("revision", 1), v.optionalText("writes") })
	return last, writes, err
}

// Statements for the common table. Additional columns follow where the comments are: see sqltext.WithColumns.
const (
	getState     = `SELECT ` + stateColumns + ` FROM durable_state WHERE persistence_id = ?`
	lastRevision = `SELECT revision, writes FROM durable_state WHERE persistence_id = ?`
	insertState  = `INSERT INTO durable_state (slice, entity_type, persistence_id, revision, db_timestamp, state_ser_id, state_ser_manifest, state_payload,
			tags, meta_ser_id, meta_ser_manifest, meta_payload, writes, crc32c/*, column*/)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14/*, value*/)`
	updateState = `UPDATE durable_state SET slice = ?1, entity_type = ?2, revision = ?4, db_timestamp = ?5, state_ser_id = ?6, state_ser_manifest = ?7,
			state_payload = ?8, tags = ?9, meta_ser_id = ?10, meta_ser_manifest = ?11, meta_payload = ?12, writes = ?13, crc32c = ?14/*, column = value*/
		WHERE persistence_id = ?3`
)

// store writes s, the first revision of its entity or a later one. Additional columns that are not in columns keep their values, as all
// do in a delete.
func (t *stateType) store(ctx context.Context, tx *transaction, s annals.State, first bool, all writes.List, columns []string, values []any) error {
	text := t.update
	if first {
		text = t.insert
	}
	text = sqltext.WithColumns(text, len(columns), func(i int) (name, value string) { return quote(columns[i]), "?" })
	metaID, metaManifest, metaData := metadataArgs(s.Metadata)
	return tx.exec(ctx, text, append([]any{int64(s.ID.Slice()), s.ID.Type(), string(s.ID), int64(s.Revision), s.Time.UnixMicro(),
		int64(s.SerializerID), s.Manifest, blob(s.Data), tagsArg(s.Tags), metaID, metaManifest, metaData, all.String(),
		tx.checksums.arg(summedState(&s))}, values...)...)
}

func scanStates(ctx context.Context, q *statements, p *page[annals.State], text string, args ...any) error {
	return q.rows(ctx, text, args, func(v *values) (bool, error) {
		s, err := readState(v)
		if err != nil {
			return false, err
		}
		return p.add(s, len(s.Data)), nil
	})
}
