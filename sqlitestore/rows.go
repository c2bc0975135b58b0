package sqlitestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/writes"
)

// Times are stored as microseconds since 1970 in UTC, tags as a JSON array or NULL for none, metadata in three columns that are all NULL
// or all set, and WriteIDs as the text of a UUID.

// The columns of an event but for its id, and the same without the payload. From snapshotAt on they stand for snapshotColumns.
const (
	snapshotAt   = 3
	eventColumns = `deleted, writer, adapter_manifest, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload,
		tags, meta_ser_id, meta_ser_manifest, meta_payload, crc32c`
	eventKeys = `deleted, writer, adapter_manifest, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, x'',
		tags, meta_ser_id, meta_ser_manifest, meta_payload, NULL`
)

// eventRow decodes rows of eventColumns, one after the other.
type eventRow struct {
	annals.Event
	deleted bool

	writer    string
	writeID   annals.WriteID // parsed from writer
	checksums checksums
}

// read decodes eventColumns. The caller has set ID. Only the number of a deleted event has a meaning.
func (r *eventRow) read(v *values) error {
	id, manifest := r.ID, r.Manifest
	r.deleted = v.integer("deleted", 0, math.MaxInt64) != 0
	writer, adapter := v.textAgain("writer", r.writer), v.text("adapter_manifest")
	r.Event = annals.Event{ID: id, Adapter: adapter, SeqNr: v.seqNr("seq_nr", 1), Time: fromMicros(v.micros("db_timestamp"))}
	r.SerializerID, r.Manifest, r.Data = v.serializerID("event_ser_id"), v.textAgain("event_ser_manifest", manifest), v.blob("event_payload")
	r.Tags, r.Metadata = v.tags("tags"), v.metadata()
	if r.SerializerID == 0 && !r.deleted {
		v.fault("event_ser_id", "0")
	}
	if writer != r.writer {
		w, err := writes.ParseID(writer)
		if err != nil {
			v.fault("writer", "no UUID")
		}
		r.writer, r.writeID = writer, w
	}
	r.WriteID = r.writeID
	r.checksums.verify(v, &r.Event, r.deleted)
	if v.err != nil {
		return v.damage(ability.Unreadable, r.ID, r.SeqNr, fmt.Sprintf("event %d", r.SeqNr))
	}
	return nil
}

func (r *eventRow) corrupt(err error) error {
	return &annals.Error{ID: r.ID, Kind: annals.ErrCorrupt, Err: &ability.Damage{From: r.SeqNr, To: r.SeqNr, Err: fmt.Errorf("event %d: %w", r.SeqNr, err)}}
}

// metadataArgs are the values of the three columns of metadata.
func metadataArgs(p annals.Payload) (serializerID, manifest, data any) {
	if p.SerializerID == 0 {
		return nil, nil, nil
	}
	return int64(p.SerializerID), p.Manifest, blob(p.Data)
}

// blob returns data, and an empty slice for nil, which would be stored as NULL.
func blob(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

func tagsArg(tags []string) any {
	if len(tags) == 0 {
		return nil
	}
	text, _ := json.Marshal(tags) // cannot fail
	return string(text)
}

func parseTags(text string) (tags []string, err error) {
	if text == "[]" {
		return nil, nil
	}
	if json.Unmarshal([]byte(text), &tags) != nil || len(tags) == 0 || slices.Contains(tags, "") {
		return nil, errors.New("no JSON array of tags")
	}
	return tags, nil
}

func fromMicros(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// ceilMicros is the first microsecond at or after t.
func ceilMicros(t time.Time) int64 {
	micros := t.UnixMicro()
	if t.Nanosecond()%1000 != 0 {
		micros++
	}
	return micros
}
