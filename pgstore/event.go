package pgstore

import (
	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
)

// eventColumns are the columns of an event as eventDecoder takes them. keysOnly leaves payloads out.
func (s *Store) eventColumns(keysOnly bool) string {
	payload, meta := read(s.journal, "event_payload"), "meta_payload"
	if keysOnly {
		payload, meta = "''::bytea", "NULL::bytea"
	}
	return "persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, " + payload +
		", writer, coalesce(adapter_manifest, ''), tags, meta_ser_id, meta_ser_manifest, " + meta
}

// appendEvents reads rows of eventColumns to their end.
func appendEvents(to []annals.Event, rows pgx.Rows, result *annals.Result) ([]annals.Event, error) {
	defer rows.Close()
	result.Requests++
	d := newEventDecoder()
	for rows.Next() {
		e, err := d.scan(rows)
		if err != nil {
			return to, err
		}
		to = append(to, e)
		result.Events++
		result.Bytes += len(e.Data) + len(e.Metadata.Data)
	}
	return to, rows.Err()
}

// eventDecoder makes events of rows.
type eventDecoder struct {
	into []any // what a row is scanned into: the fields below

	event                         annals.Event
	id, manifest, writer, adapter interned
	metaID                        *int32
	metaManifest                  *string
	meta                          []byte

	parsed  string // the writer that writeID is
	writeID annals.WriteID
}

// newEventDecoder takes rows of eventColumns behind columns of the caller's own.
func newEventDecoder(before ...any) *eventDecoder {
	d := &eventDecoder{}
	e := &d.event
	d.into = append(before, &d.id, (*int64)(&e.SeqNr), &e.Time, &e.SerializerID, &d.manifest, &e.Data, &d.writer, &d.adapter,
		&e.Tags, &d.metaID, &d.metaManifest, &d.meta)
	return d
}

func (d *eventDecoder) scan(rows pgx.Rows) (annals.Event, error) {
	if err := rows.Scan(d.into...); err != nil {
		return annals.Event{}, err
	}
	if d.writer.text != d.parsed {
		d.parsed = d.writer.text
		d.writeID, _ = annals.ParseWriteID(d.parsed) // a foreign writer may have a name of another kind: zero then
	}
	e := d.event
	e.ID, e.Time, e.WriteID = annals.PersistenceID(d.id.text), e.Time.UTC(), d.writeID
	e.Manifest, e.Adapter = d.manifest.text, d.adapter.text
	e.Tags = orNil(e.Tags)
	e.Metadata = metadata(d.metaID, d.metaManifest, d.meta)
	return e, nil
}

// interned is a text column whose value is mostly that of the row before: then it costs no memory.
type interned struct{ text string }

// ScanBytes is pgtype.BytesScanner.
func (i *interned) ScanBytes(b []byte) error {
	if string(b) != i.text {
		i.text = string(b)
	}
	return nil
}

// metadata is the three columns as a payload.
func metadata(id *int32, manifest *string, data []byte) annals.Payload {
	if id == nil {
		return annals.Payload{}
	}
	p := annals.Payload{SerializerID: *id, Data: data}
	if manifest != nil {
		p.Manifest = *manifest
	}
	return p
}

// orNil has no tags be nil, however the table says it.
func orNil(tags []string) []string {
	if len(tags) == 0 {
		return nil
	}
	return tags
}
