package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/pgstore/internal/wire"
)

type snapshots struct{ view }

// atWritten is the save time of a snapshot, which the tables keep in milliseconds; infinite, which is unreadable, where it is in
// none of the years 1 to 9999.
const atWritten = `CASE WHEN write_timestamp BETWEEN -62135596800000 AND 253402300799999
	THEN 'epoch'::timestamptz + write_timestamp * interval '1 millisecond' ELSE 'infinity'::timestamptz END`

// snapshotColumns are a snapshot's columns in the places of eventColumns.
func (s *Store) snapshotColumns() string {
	tags := "NULL::text[]"
	if s.snapshot.has("tags") {
		tags = "tags"
	}
	return "persistence_id, seq_nr, " + atWritten + ", ser_id, ser_manifest, " + payloadBytes(s.snapshot, "snapshot") +
		", '', '', " + tags + ", meta_ser_id, meta_ser_manifest, meta_payload"
}

func asSnapshot(e annals.Event) annals.Snapshot {
	return annals.Snapshot{ID: e.ID, SeqNr: e.SeqNr, Time: e.Time, Payload: e.Payload, Tags: e.Tags, Metadata: e.Metadata}
}

func (s *Store) prepareSnapshots() {
	s.sql.loadSnapshot = s.fill(`SELECT {snapshot columns} FROM {snapshot}
		WHERE persistence_id = $1 AND seq_nr >= $2 AND seq_nr <= $3 AND write_timestamp >= $4 AND write_timestamp <= $5`, "{snapshot columns}", s.snapshotColumns())
	s.sql.deleteSnapshots = s.fill(`DELETE FROM {snapshot}
		WHERE persistence_id = $1 AND seq_nr >= $2 AND seq_nr <= $3 AND write_timestamp >= $4 AND write_timestamp <= $5`)

	further, values, sets := "", "", ""
	if s.snapshotsAreFollowed() {
		further = ", tags, db_timestamp"
		values = s.fill(`, coalesce($12::text::text[], '{}'),
			coalesce((SELECT db_timestamp FROM {journal} WHERE persistence_id = $3::text AND seq_nr = $4::bigint), transaction_timestamp())`)
		sets = ", tags = excluded.tags, db_timestamp = excluded.db_timestamp"
	}
	s.sql.saveSnapshot = s.fill(`
		INSERT INTO {snapshot} AS old (slice, entity_type, persistence_id, seq_nr, write_timestamp, ser_id, ser_manifest, snapshot,
			meta_ser_id, meta_ser_manifest, meta_payload{further})
		VALUES ($1, $2, $3::text, $4::bigint, coalesce($5::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), $6, $7, {payload},
			$9, $10, $11{values})
		ON CONFLICT (persistence_id) DO UPDATE SET seq_nr = excluded.seq_nr, write_timestamp = excluded.write_timestamp, ser_id = excluded.ser_id,
			ser_manifest = excluded.ser_manifest, snapshot = excluded.snapshot, meta_ser_id = excluded.meta_ser_id,
			meta_ser_manifest = excluded.meta_ser_manifest, meta_payload = excluded.meta_payload{sets}
		WHERE old.seq_nr <= excluded.seq_nr`, "{payload}", payloadValue(s.snapshot, "snapshot", "$8::bytea"),
		"{further}", further, "{values}", values, "{sets}", sets)
}

// snapshotsAreFollowed reports whether the table has what followers need that start from snapshots: time and tags of the
// event. Akka's tables have it from 1.2.0 on, Pekko's do not.
func (s *Store) snapshotsAreFollowed() bool {
	return s.snapshot.has("tags") && s.snapshot.has("db_timestamp")
}

func (v snapshots) Latest(ctx context.Context, id annals.PersistenceID, criteria annals.SnapshotCriteria) (found annals.Snapshot, ok bool, err error) {
	if err := validRead("load snapshot", id); err != nil {
		return annals.Snapshot{}, false, err
	}
	c, err := v.begin(ctx, "load snapshot", id, 0)
	if err != nil {
		return annals.Snapshot{}, false, err
	}
	defer c.end(&err)
	c.result.Requests = 1
	rows, err := v.reader().Query(c.ctx, v.s.sql.loadSnapshot, append([]any{eventFormats}, bounds(id, criteria)...)...)
	if err != nil {
		return annals.Snapshot{}, false, err
	}
	defer rows.Close()
	d := newEventDecoder(rows)
	for rows.Next() { // once, or not at all: the id is the key
		var e annals.Event
		if err := d.event(&e); err != nil {
			return annals.Snapshot{}, false, err
		}
		c.result.Bytes = len(e.Data)
		found, ok = asSnapshot(e), true
	}
	return found, ok, rows.Err()
}

func (v snapshots) Save(ctx context.Context, s annals.Snapshot) (err error) {
	if err := s.Validate(v.s.limits); err != nil {
		return err
	}
	if err := storable(v.s.snapshot, "snapshot", s.Payload, s.Metadata); err != nil {
		return invalid("save snapshot", s.ID, err)
	}
	c, err := v.beginWrite(ctx, "save snapshot", s.ID, 0)
	if err != nil {
		return err
	}
	defer c.end(&err)
	c.result.Requests, c.result.Bytes = 1, len(s.Data)
	if v.tx != nil {
		return atomically(c.ctx, v.tx.tx, func(tx pgx.Tx) error { return v.s.save(c.ctx, tx, s) })
	}
	if err := v.s.save(c.ctx, v.s.write, s); err != nil {
		return writeFault("save snapshot", s.ID, err)
	}
	return nil
}

// save stores s unless a newer one is there.
func (s *Store) save(ctx context.Context, q querier, snap annals.Snapshot) error {
	metaID, metaManifest, meta := metaColumns(snap.Metadata)
	var at *int64
	if !snap.Time.IsZero() {
		ms := snap.Time.UnixMilli()
		at = &ms
	}
	args := []any{snap.ID.Slice(), snap.ID.Type(), string(snap.ID), int64(snap.SeqNr), at, snap.SerializerID, snap.Manifest, notNil(snap.Data),
		metaID, metaManifest, meta}
	if s.snapshotsAreFollowed() {
		args = append(args, wire.TextArray(snap.Tags))
	}
	_, err := q.Exec(ctx, s.sql.saveSnapshot, args...)
	return err
}

func (v snapshots) Delete(ctx context.Context, id annals.PersistenceID, criteria annals.SnapshotCriteria) (err error) {
	if err := criteria.ValidateDelete(id, idLimits); err != nil {
		return err
	}
	c, err := v.beginWrite(ctx, "delete snapshots", id, 0)
	if err != nil {
		return err
	}
	defer c.end(&err)
	c.result.Requests = 1
	_, err = v.writer().Exec(c.ctx, v.s.sql.deleteSnapshots, bounds(id, criteria)...)
	if err != nil && v.tx == nil {
		return writeFault("delete snapshots", id, err)
	}
	return err
}

// bounds are the parameters of a statement that chooses by criteria. The times of both sides are whole milliseconds.
func bounds(id annals.PersistenceID, c annals.SnapshotCriteria) []any {
	maxSeqNr, minTime, maxTime := int64(c.MaxSeqNr), int64(-1<<63), int64(1<<63-1)
	if maxSeqNr == 0 {
		maxSeqNr = int64(annals.MaxSeqNr)
	}
	if !c.MinTime.IsZero() {
		minTime = c.MinTime.UnixMilli()
	}
	if !c.MaxTime.IsZero() {
		maxTime = c.MaxTime.UnixMilli()
	}
	return []any{string(id), int64(c.MinSeqNr), maxSeqNr, minTime, maxTime}
}
