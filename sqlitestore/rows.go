package sqlitestore

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/annals-go/annals"
)

// How values lie in columns: times as microseconds since 1970, UTC; tags as a JSON array, NULL for none; metadata in
// three columns that are all NULL or all set; writers as UUID text.

const eventColumns = `seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, deleted, writer,
	adapter_manifest, tags, meta_ser_id, meta_ser_manifest, meta_payload`

// eventRow scans eventColumns, behind persistence_id where that is selected.
type eventRow struct {
	id       annals.PersistenceID
	seqNr    annals.SeqNr
	time     int64
	serID    int64 // Scan is slow into narrower types
	payload  annals.Payload
	deleted  int64
	writer   string
	adapter  string
	tags     sql.NullString
	metadata metadataRow

	lastWriter  string // parsed before
	lastWriteID annals.WriteID
}

func (r *eventRow) dest() []any {
	return []any{&r.seqNr, &r.time, &r.serID, &r.payload.Manifest, &r.payload.Data, &r.deleted, &r.writer,
		&r.adapter, &r.tags, &r.metadata.serializerID, &r.metadata.manifest, &r.metadata.data}
}

func (r *eventRow) event() (annals.Event, error) {
	r.payload.SerializerID = int32(r.serID)
	e := annals.Event{ID: r.id, SeqNr: r.seqNr, Time: fromMicros(r.time), Payload: r.payload, Adapter: r.adapter, Metadata: r.metadata.payload()}
	if r.writer != r.lastWriter {
		w, err := annals.ParseWriteID(r.writer)
		if err != nil {
			return annals.Event{}, r.corrupt(errors.New("the writer is no UUID"))
		}
		r.lastWriter, r.lastWriteID = r.writer, w
	}
	e.WriteID = r.lastWriteID
	var err error
	if e.Tags, err = parseTags(r.tags); err != nil {
		return annals.Event{}, r.corrupt(err)
	}
	return e, nil
}

func (r *eventRow) corrupt(err error) error {
	return &annals.Error{ID: r.id, Kind: annals.ErrCorrupt, Err: fmt.Errorf("event %d: %w", r.seqNr, err)}
}

type metadataRow struct {
	serializerID sql.Null[int32]
	manifest     sql.NullString
	data         []byte
}

func (r *metadataRow) payload() annals.Payload {
	if !r.serializerID.Valid {
		return annals.Payload{}
	}
	return annals.Payload{SerializerID: r.serializerID.V, Manifest: r.manifest.String, Data: r.data}
}

// metadataArgs are the values of the three columns.
func metadataArgs(p annals.Payload) (serializerID, manifest, data any) {
	if p.SerializerID == 0 {
		return nil, nil, nil
	}
	return int64(p.SerializerID), p.Manifest, blob(p.Data)
}

// blob keeps nil from becoming NULL.
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
	text, _ := json.Marshal(tags) // of valid UTF-8, checked before
	return string(text)
}

func parseTags(text sql.NullString) (tags []string, err error) {
	if !text.Valid || text.String == "[]" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text.String), &tags); err != nil {
		return nil, errors.New("the tags are no JSON array of strings")
	}
	return tags, nil
}

func fromMicros(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// ceilMicros is the first microsecond that is not before t.
func ceilMicros(t time.Time) int64 {
	micros := t.UnixMicro()
	if t.Nanosecond()%1000 != 0 {
		micros++
	}
	return micros
}
