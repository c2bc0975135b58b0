package sqlitestore

import (
	"context"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// journal is the annals.Journal of a view.
type journal struct{ view }

const (
	insertEvent = `INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp, written,
			event_ser_id, event_ser_manifest, event_payload, writer, adapter_manifest, tags,
			meta_ser_id, meta_ser_manifest, meta_payload, crc32c)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	// insertFirst inserts the first event of a commit if After is the entity's last number. If not, seq_nr is NULL, which the table
	// refuses. (An INSERT … SELECT … WHERE takes twice the time, because it copies the row through a temporary table.) The id is there twice,
	// because the driver allocates memory for the name of each numbered parameter.
	insertFirst = `INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp, written,
			event_ser_id, event_ser_manifest, event_payload, writer, adapter_manifest, tags,
			meta_ser_id, meta_ser_manifest, meta_payload, crc32c)
		VALUES (?, ?, ?, CASE (SELECT ifnull(max(seq_nr), 0) FROM event_journal WHERE persistence_id = ?) WHEN ? THEN ? END,
			?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// Append is annals.Journal. Appends that wait at the same time share one transaction.
func (j journal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	c.Events = slices.Clone(c.Events) // a caller whose context ends may use its slice again while the write goes on
	if c.Snapshot != nil {
		snapshot := *c.Snapshot
		c.Snapshot = &snapshot
	}
	bytes := 0
	for i := range c.Events {
		bytes += len(c.Events[i].Data) + len(c.Events[i].Metadata.Data)
	}
	var receipt annals.Receipt // the writer may set it when Append has returned
	err := j.write(ctx, &write{bytes: bytes, plain: true, single: len(c.Events) == 1 && c.Snapshot == nil, apply: func(ctx context.Context, t *transaction) (err error) {
		receipt, err = t.append(ctx, &c)
		return err
	}})
	if err != nil {
		return annals.Receipt{}, err
	}
	return receipt, nil
}

func (t *transaction) append(ctx context.Context, c *annals.Commit) (annals.Receipt, error) {
	if err := checkTimes(c.Events...); err != nil {
		return annals.Receipt{}, err
	}
	now, err := t.date(ctx, c.ID)
	if err != nil {
		return annals.Receipt{}, err
	}
	writer := c.WriteID.String()
	first := t.eventArgs(c.ID, c.After+1, now, c.WriteID, writer, &c.Events[0])
	err = t.exec(ctx, insertFirst, slices.Insert(first, 3, first[2], any(int64(c.After)))...)
	if isNull(err) {
		return t.lost(ctx, c, writer, err)
	}
	if err != nil {
		return annals.Receipt{}, err
	}
	for i := range c.Events[1:] {
		n := c.After + 2 + annals.SeqNr(i)
		if err := t.exec(ctx, insertEvent, t.eventArgs(c.ID, n, now, c.WriteID, writer, &c.Events[i+1])...); err != nil {
			return annals.Receipt{}, err
		}
	}
	if c.Snapshot != nil {
		if err := t.saveSnapshot(ctx, c.Snapshot, fromMicros(now)); err != nil {
			return annals.Receipt{}, err
		}
	}
	last := now
	for i := range c.Events {
		last = eventTime(&c.Events[i], now)
		t.clock.pass(last)
	}
	return annals.Receipt{SeqNr: c.After + annals.SeqNr(len(c.Events)), Time: fromMicros(last)}, nil
}

// lost decides about a commit whose After is not the last number: a repetition, or a conflict. refusal is what the table
// said; it stands when After is the last number.
func (t *transaction) lost(ctx context.Context, c *annals.Commit, writer string, refusal error) (annals.Receipt, error) {
	// All events of a commit were written at one time, and no other commit was. The first events of the earlier try may have been
	// deleted; the event before them shows whether the try began after it.
	const find = `SELECT max(seq_nr), db_timestamp FROM event_journal
		WHERE persistence_id = ?1 AND seq_nr > ?2 AND seq_nr <= ?3 AND writer = ?4 AND ifnull(written, db_timestamp) NOT IN
			(SELECT ifnull(written, db_timestamp) FROM event_journal WHERE persistence_id = ?1 AND seq_nr = ?2)
		GROUP BY ifnull(written, db_timestamp) ORDER BY ifnull(written, db_timestamp) LIMIT 1`
	r := annals.Receipt{Repeated: true}
	found, err := t.row(ctx, find, []any{string(c.ID), int64(c.After), int64(c.After) + int64(len(c.Events)), writer}, func(v *values) {
		r.SeqNr, r.Time = v.seqNr("seq_nr", 1), fromMicros(v.micros("db_timestamp"))
	})
	if err != nil {
		return annals.Receipt{}, err
	}
	if found {
		return r, nil
	}
	last, err := t.lastSeqNr(ctx, c.ID)
	if err != nil {
		return annals.Receipt{}, err
	}
	if last == c.After {
		return annals.Receipt{}, refusal
	}
	return annals.Receipt{}, &annals.Error{After: c.After, Last: last, Kind: annals.ErrConflict}
}

// eventArgs are the arguments of insertEvent for event n of a commit at the time now.
func (t *transaction) eventArgs(id annals.PersistenceID, n annals.SeqNr, now int64, w annals.WriteID, writer string, e *annals.NewEvent) []any {
	var written any
	if !e.Time.IsZero() {
		written = now
	}
	time := eventTime(e, now)
	metaID, metaManifest, metaData := metadataArgs(e.Metadata)
	sum := t.checksums.arg(&annals.Event{ID: id, SeqNr: n, Time: fromMicros(time), WriteID: w, Payload: e.Payload,
		Adapter: e.Adapter, Tags: e.Tags, Metadata: e.Metadata})
	args := make([]any, 0, 18)
	return append(args, int64(id.Slice()), id.Type(), string(id), int64(n), time, written, int64(e.SerializerID), e.Manifest, blob(e.Data),
		writer, e.Adapter, tagsArg(e.Tags), metaID, metaManifest, metaData, sum)
}

func (j journal) LastSeqNr(ctx context.Context, id annals.PersistenceID) (last annals.SeqNr, err error) {
	err = j.read(ctx, func(ctx context.Context, q *statements) (err error) {
		last, err = q.lastSeqNr(ctx, id)
		return err
	})
	return last, err
}

func (s *statements) lastSeqNr(ctx context.Context, id annals.PersistenceID) (last annals.SeqNr, err error) {
	const text = `SELECT ifnull(max(seq_nr), 0) FROM event_journal WHERE persistence_id = ?`
	_, err = s.row(ctx, text, []any{string(id)}, func(v *values) { last = v.seqNr("seq_nr", 0) })
	return last, err
}

// A retry must find its row for as long as it may come: rows younger than this keep their place without content.
const keepDeleted = ability.ForgetAge

// deleteBatch is how many rows one transaction of DeleteTo visits: other writers get their turn in between.
const deleteBatch = 256

// DeleteTo is annals.Journal. Younger rows are emptied and stay as a fence, older ones are removed. The row of the last number that is
// deleted always stays: it says that this number and all before it are deleted, and it may hold the entity's last number. The events are
// deleted in ascending order in several transactions; a DeleteTo that fails on its way is completed by repeating it.
func (j journal) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	for batch := (deletion{id: id, to: to}); batch.after < batch.to; batch.after = batch.until {
		if err := j.write(ctx, &write{apply: batch.apply}); err != nil {
			return err
		}
	}
	return nil
}

// deletion is one transaction of DeleteTo, which goes on after the last one. Once applied, to is held to the last number, and until is how far it came.
type deletion struct {
	id               annals.PersistenceID
	after, to, until annals.SeqNr
}

func (d *deletion) apply(ctx context.Context, t *transaction) error {
	const (
		extent = `SELECT ifnull(max(seq_nr), 0), ifnull((SELECT max(seq_nr) FROM event_journal WHERE persistence_id = ?1), 0) FROM
			(SELECT seq_nr FROM event_journal WHERE persistence_id = ?1 AND seq_nr > ?2 AND seq_nr <= ?3 ORDER BY seq_nr LIMIT ?4)`
		remove = `DELETE FROM event_journal WHERE persistence_id = ? AND seq_nr >= ? AND seq_nr < ? AND ifnull(written, db_timestamp) < ?`
		strip  = `UPDATE event_journal SET deleted = ?, event_ser_id = 0, event_ser_manifest = '', event_payload = x'',
			adapter_manifest = '', tags = NULL, meta_ser_id = NULL, meta_ser_manifest = NULL, meta_payload = NULL, crc32c = NULL
			WHERE persistence_id = ? AND seq_nr > ? AND seq_nr <= ? AND deleted = 0`
	)
	var until, last annals.SeqNr
	_, err := t.row(ctx, extent, []any{string(d.id), int64(d.after), int64(d.to), deleteBatch}, func(v *values) {
		until, last = v.seqNr("seq_nr", 0), v.seqNr("seq_nr", 0)
	})
	if err != nil {
		return err
	}
	d.to = min(d.to, last)
	if d.until = until; until == 0 {
		d.until = d.to
		return nil
	}
	if err := t.keepClock(ctx, d.id); err != nil {
		return err
	}
	now := time.Now()
	old := now.Add(-keepDeleted).UnixMicro()
	// The row of after is the last one of the transaction before.
	if err := t.exec(ctx, remove, string(d.id), int64(d.after), int64(until), old); err != nil {
		return err
	}
	return t.exec(ctx, strip, now.UnixMicro(), string(d.id), int64(d.after), int64(until))
}
