package sqlitestore

import (
	"context"
	"time"

	"github.com/annals-go/annals"
)

// snapshots is the annals.SnapshotStore of a view: one row per entity.
type snapshots struct{ view }

// Latest is annals.SnapshotStore.
func (s snapshots) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (newest annals.Snapshot, found bool, err error) {
	err = s.read(ctx, func(ctx context.Context, q *statements) (err error) {
		newest, found, err = latestSnapshot(ctx, q, id, c)
		return err
	})
	return newest, found, err
}

func latestSnapshot(ctx context.Context, q *statements, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	where, args := criteria(id, c)
	text := `SELECT ` + snapshotColumns + ` FROM snapshot WHERE ` + where
	s := annals.Snapshot{ID: id}
	found, err := q.row(ctx, text, args, func(v *values) { readSnapshot(v, &s) })
	if err != nil || !found {
		return annals.Snapshot{}, false, err
	}
	return s, true, nil
}

const snapshotColumns = `seq_nr, write_timestamp, ser_id, ser_manifest, snapshot, tags, meta_ser_id, meta_ser_manifest, meta_payload, crc32c`

// readSnapshot decodes snapshotColumns. The caller has set s.ID.
func readSnapshot(v *values, s *annals.Snapshot) {
	s.SeqNr, s.Time = v.seqNr("seq_nr", 1), fromMicros(v.any64("write_timestamp"))
	s.SerializerID, s.Manifest, s.Data = v.serializerID("ser_id"), v.text("ser_manifest"), v.blob("snapshot")
	s.Tags, s.Metadata = v.tags("tags"), v.metadata()
	if s.SerializerID == 0 {
		v.fault("ser_id", "0")
	}
	new(checksums).verify(v, summedSnapshot(s), false)
}

// Save is annals.SnapshotStore.
func (s snapshots) Save(ctx context.Context, snapshot annals.Snapshot) error {
	bytes := len(snapshot.Data) + len(snapshot.Metadata.Data)
	return s.write(ctx, &write{bytes: bytes, apply: func(ctx context.Context, t *transaction) error {
		return t.saveSnapshot(ctx, &snapshot, time.Now())
	}})
}

// saveSnapshot stores s, unless there is a snapshot with a greater number. The time of a snapshot without one is now.
func (t *transaction) saveSnapshot(ctx context.Context, s *annals.Snapshot, now time.Time) error {
	const upsert = `INSERT INTO snapshot (slice, entity_type, persistence_id, seq_nr, db_timestamp, write_timestamp,
			ser_id, ser_manifest, snapshot, tags, meta_ser_id, meta_ser_manifest, meta_payload, crc32c)
		VALUES (?1, ?2, ?3, ?4, (SELECT db_timestamp FROM event_journal WHERE persistence_id = ?3 AND seq_nr = ?4),
			?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
		ON CONFLICT (persistence_id) DO UPDATE SET seq_nr = excluded.seq_nr, db_timestamp = excluded.db_timestamp,
			write_timestamp = excluded.write_timestamp, ser_id = excluded.ser_id, ser_manifest = excluded.ser_manifest,
			snapshot = excluded.snapshot, tags = excluded.tags, meta_ser_id = excluded.meta_ser_id,
			meta_ser_manifest = excluded.meta_ser_manifest, meta_payload = excluded.meta_payload,
			crc32c = excluded.crc32c
		WHERE excluded.seq_nr >= snapshot.seq_nr`
	taken := s.Time
	if taken.IsZero() {
		taken = now
	}
	metaID, metaManifest, metaData := metadataArgs(s.Metadata)
	stored := *s
	stored.Time = taken
	_, err := t.exec(ctx, upsert, int64(s.ID.Slice()), s.ID.Type(), string(s.ID), int64(s.SeqNr), taken.UnixMicro(),
		int64(s.SerializerID), s.Manifest, blob(s.Data), tagsArg(s.Tags), metaID, metaManifest, metaData,
		t.checksums.arg(summedSnapshot(&stored)))
	return err
}

// summedSnapshot is s in the form of which the checksum is computed.
func summedSnapshot(s *annals.Snapshot) *annals.Event {
	return &annals.Event{ID: s.ID, SeqNr: s.SeqNr, Time: s.Time, Payload: s.Payload, Tags: s.Tags, Metadata: s.Metadata}
}

// Delete is annals.SnapshotStore.
func (s snapshots) Delete(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	where, args := criteria(id, c)
	return s.write(ctx, &write{apply: func(ctx context.Context, t *transaction) error {
		_, err := t.exec(ctx, `DELETE FROM snapshot WHERE `+where, args...)
		return err
	}})
}

// criteria returns the conditions for c, and their arguments.
func criteria(id annals.PersistenceID, c annals.SnapshotCriteria) (where string, args []any) {
	where, args = `persistence_id = ?`, []any{string(id)}
	if c.MinSeqNr != 0 {
		where, args = where+` AND seq_nr >= ?`, append(args, int64(c.MinSeqNr))
	}
	if c.MaxSeqNr != 0 {
		where, args = where+` AND seq_nr <= ?`, append(args, int64(c.MaxSeqNr))
	}
	if !c.MinTime.IsZero() {
		where, args = where+` AND write_timestamp >= ?`, append(args, ceilMicros(c.MinTime))
	}
	if !c.MaxTime.IsZero() {
		where, args = where+` AND write_timestamp <= ?`, append(args, c.MaxTime.UnixMicro())
	}
	return where, args
}
