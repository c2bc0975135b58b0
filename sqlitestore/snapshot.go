package sqlitestore

import (
	"context"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// snapshots is the annals.SnapshotStore of a view: one row per entity.
type snapshots struct{ view }

func (s snapshots) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (newest annals.Snapshot, found bool, err error) {
	err = s.read(ctx, func(ctx context.Context, q *statements) (err error) {
		newest, found, err = latestSnapshot(ctx, q, id, c)
		return err
	})
	return newest, found, err
}

// criteria are the conditions for the arguments that bounds returns.
const criteria = `persistence_id = ?1 AND (?2 = 0 OR seq_nr >= ?2) AND (?3 = 0 OR seq_nr <= ?3)
	AND (?4 IS NULL OR write_timestamp >= ?4) AND (?5 IS NULL OR write_timestamp <= ?5)`

func bounds(id annals.PersistenceID, c annals.SnapshotCriteria) []any {
	var oldest, newest any
	if !c.MinTime.IsZero() {
		oldest = ceilMicros(c.MinTime)
	}
	if !c.MaxTime.IsZero() {
		newest = c.MaxTime.UnixMicro()
	}
	return []any{string(id), int64(c.MinSeqNr), int64(c.MaxSeqNr), oldest, newest}
}

func latestSnapshot(ctx context.Context, q *statements, id annals.PersistenceID, c annals.SnapshotCriteria) (s annals.Snapshot, found bool, err error) {
	const text = `SELECT ` + snapshotColumns + ` FROM snapshot WHERE ` + criteria
	err = q.rows(ctx, text, bounds(id, c), func(v *values) (_ bool, err error) {
		s, err = readSnapshot(v, id)
		found = true
		return false, err
	})
	if err != nil {
		return annals.Snapshot{}, false, err
	}
	return s, found, nil
}

// snapshotEventTime is the time of a snapshot's event.
const snapshotEventTime = `ifnull(db_timestamp, write_timestamp)`

// The columns of a snapshot but for its id, and the same without the payload.
const (
	snapshotColumns = `seq_nr, write_timestamp, ser_id, ser_manifest, snapshot, tags, meta_ser_id, meta_ser_manifest, meta_payload, crc32c`
	snapshotKeys    = `seq_nr, write_timestamp, ser_id, ser_manifest, x'', tags, meta_ser_id, meta_ser_manifest, meta_payload, NULL`
)

// readSnapshot decodes snapshotColumns of the entity id.
func readSnapshot(v *values, id annals.PersistenceID) (annals.Snapshot, error) {
	s := annals.Snapshot{ID: id, SeqNr: v.seqNr("seq_nr", 1), Time: fromMicros(v.integer("write_timestamp", firstMicros, lastMicros))}
	s.SerializerID, s.Manifest, s.Data = v.serializerID("ser_id"), v.text("ser_manifest"), v.blob("snapshot")
	s.Tags, s.Metadata = v.tags("tags"), v.metadata()
	if s.SerializerID == 0 {
		v.fault("ser_id", "0")
	}
	new(checksums).verify(v, summedSnapshot(&s), false)
	if v.err != nil {
		return annals.Snapshot{}, v.damage(ability.Snapshot, id, s.SeqNr, "snapshot")
	}
	return s, nil
}

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
		VALUES (?1, ?2, ?3, ?4, ifnull((SELECT db_timestamp FROM event_journal WHERE persistence_id = ?3 AND seq_nr = ?4), ?14),
			?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
		ON CONFLICT (persistence_id) DO UPDATE SET seq_nr = excluded.seq_nr, db_timestamp = excluded.db_timestamp,
			write_timestamp = excluded.write_timestamp, ser_id = excluded.ser_id, ser_manifest = excluded.ser_manifest,
			snapshot = excluded.snapshot, tags = excluded.tags, meta_ser_id = excluded.meta_ser_id,
			meta_ser_manifest = excluded.meta_ser_manifest, meta_payload = excluded.meta_payload,
			crc32c = excluded.crc32c
		WHERE excluded.seq_nr >= snapshot.seq_nr`
	stored := *s
	if s.Time.IsZero() {
		stored.Time = now
	}
	metaID, metaManifest, metaData := metadataArgs(s.Metadata)
	return t.exec(ctx, upsert, int64(s.ID.Slice()), s.ID.Type(), string(s.ID), int64(s.SeqNr), stored.Time.UnixMicro(),
		int64(s.SerializerID), s.Manifest, blob(s.Data), tagsArg(s.Tags), metaID, metaManifest, metaData,
		t.checksums.arg(summedSnapshot(&stored)), now.UnixMicro())
}

// summedSnapshot is s in the form of which the checksum is computed.
func summedSnapshot(s *annals.Snapshot) *annals.Event {
	return &annals.Event{ID: s.ID, SeqNr: s.SeqNr, Time: s.Time, Payload: s.Payload, Tags: s.Tags, Metadata: s.Metadata}
}

func (s snapshots) Delete(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	return s.write(ctx, &write{apply: func(ctx context.Context, t *transaction) error {
		return t.exec(ctx, `DELETE FROM snapshot WHERE `+criteria, bounds(id, c)...)
	}})
}
