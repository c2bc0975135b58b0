package pgstore

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/pgstore/internal/wire"
)

// snapshots is the annals.SnapshotStore of a view.
type snapshots struct{ *view }

// atWritten is the time of a snapshot, which the tables keep in milliseconds. Outside of the years 1 to 9999 it is infinite, which is
// ErrCorrupt when it is read.
const atWritten = `CASE WHEN write_timestamp BETWEEN -62135596800000 AND 253402300799999
	THEN 'epoch'::timestamptz + write_timestamp * interval '1 millisecond' ELSE 'infinity'::timestamptz END`

// The columns of a snapshot in the order of eventColumns.
const snapshotColumns = `seq_nr, ` + atWritten + `, ser_id, coalesce(ser_manifest, ''), snapshot::bytea, NULL::text, NULL::text, "tags",
	meta_ser_id, meta_ser_manifest, meta_payload`

func asSnapshot(e annals.Event) annals.Snapshot {
	return annals.Snapshot{ID: e.ID, SeqNr: e.SeqNr, Time: e.Time, Payload: e.Payload, Tags: e.Tags, Metadata: e.Metadata}
}

const (
	ofCriteria = ` FROM "snapshot"
		WHERE persistence_id = $1 AND seq_nr >= $2 AND seq_nr <= $3 AND write_timestamp >= $4 AND write_timestamp <= $5`
	loadSnapshot    = `SELECT ` + snapshotColumns + ofCriteria
	deleteSnapshots = `WITH removed AS (DELETE` + ofCriteria + ` RETURNING 1) ` + confirmNone + ` AND NOT EXISTS (SELECT FROM removed)`
)

// saveSnapshot is the statement that saves a snapshot; with followed also in the columns of snapshotsAreFollowed.
func saveSnapshot(followed bool) string {
	columns, values, set := "", "", ""
	if followed {
		columns, set = ", tags, db_timestamp", ", tags = excluded.tags, db_timestamp = excluded.db_timestamp"
		values = `, coalesce($12::text::text[], '{}'),
			coalesce((SELECT db_timestamp FROM "event_journal" WHERE persistence_id = $3::text AND seq_nr = $4::bigint), transaction_timestamp())`
	}
	return `
		INSERT INTO "snapshot" AS old (slice, entity_type, persistence_id, seq_nr, write_timestamp, ser_id, ser_manifest, snapshot,
			meta_ser_id, meta_ser_manifest, meta_payload` + columns + `)
		VALUES ($1, $2, $3::text, $4::bigint, coalesce($5::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), $6, $7, $8::bytea,
			$9, $10, $11` + values + `)
		ON CONFLICT (persistence_id) DO UPDATE SET seq_nr = excluded.seq_nr, write_timestamp = excluded.write_timestamp, ser_id = excluded.ser_id,
			ser_manifest = excluded.ser_manifest, snapshot = excluded.snapshot, meta_ser_id = excluded.meta_ser_id,
			meta_ser_manifest = excluded.meta_ser_manifest, meta_payload = excluded.meta_payload` + set + `
		WHERE old.seq_nr <= excluded.seq_nr`
}

// snapshotsAreFollowed reports whether the table has the event's time and tags, for followers that start from snapshots. Akka's
// tables have them since 1.2.0, Pekko's do not.
func (s *backend) snapshotsAreFollowed() bool {
	return s.snapshot.has("tags") && s.snapshot.has("db_timestamp")
}

func (v snapshots) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	rows, err := v.reader(ctx).Query(ctx, v.s.sql.loadSnapshot, append([]any{eventFormats}, bounds(id, c)...)...)
	if err != nil {
		return annals.Snapshot{}, false, err
	}
	found, _, err := collect(newEventDecoder(rows, id, nil), asSnapshot)
	if err != nil || len(found) == 0 {
		return annals.Snapshot{}, false, err
	}
	return found[0], true, nil
}

func (v snapshots) Save(ctx context.Context, s annals.Snapshot) error {
	if err := storable(v.s.snapshot, s.Payload, s.Metadata); err != nil {
		return invalid(err)
	}
	return v.write(ctx, func(ctx context.Context, q querier) error { return v.s.save(ctx, q, s) })
}

// save stores a snapshot unless a newer one is stored.
func (s *backend) save(ctx context.Context, q querier, snap annals.Snapshot) error {
	metaID, metaManifest, meta := metaColumns(&snap.Metadata)
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

func (v snapshots) Delete(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	return v.write(ctx, func(ctx context.Context, q querier) error {
		_, err := q.Exec(ctx, v.s.sql.deleteSnapshots, bounds(id, c)...)
		return err
	})
}

// bounds are the parameters of a statement with criteria. Stored times and bounds are whole milliseconds.
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
