package pgstore

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/writes"
	"github.com/annals-go/annals/pgstore/internal/wire"
)

// The columns of an event but for its id, as eventDecoder takes them. NULL costs the server less than an empty text.
const eventColumns = `seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload::bytea, writer, nullif(adapter_manifest, ''), tags,
	meta_ser_id, meta_ser_manifest, meta_payload`

var noPayloads = strings.NewReplacer("event_payload", "NULL", "snapshot::", "NULL::", "state_payload", "NULL", `"meta_payload"`, "NULL::bytea", "meta_payload", "NULL::bytea")

// columnsFor is columns, for f without payloads.
func columnsFor(f annals.Filter, columns string) string {
	if f.KeysOnly {
		return noPayloads.Replace(columns)
	}
	return columns
}

// eventFormats are the formats of these columns that eventDecoder reads itself. Both formats of a text are the same bytes, but the
// binary one costs the server more.
var eventFormats = pgx.QueryResultFormats{pgx.BinaryFormatCode, pgx.BinaryFormatCode, pgx.BinaryFormatCode, pgx.TextFormatCode,
	pgx.BinaryFormatCode, pgx.TextFormatCode, pgx.TextFormatCode, pgx.BinaryFormatCode, pgx.BinaryFormatCode, pgx.TextFormatCode, pgx.BinaryFormatCode}

// idAndEventFormats are those of a persistence_id and what follows it.
var idAndEventFormats = append(pgx.QueryResultFormats{pgx.TextFormatCode}, eventFormats...)

// appendEvents appends the next events of d's rows: limit at most, and none behind keptBytes of payloads. more is false when there are no rows behind them.
func appendEvents(to []annals.Event, limit int, d *eventDecoder) (all []annals.Event, more bool, err error) {
	bytes := 0
	for end := len(to) + limit; len(to) < end && bytes < keptBytes; bytes += payloads(&to[len(to)-1]) {
		if !d.rows.Next() {
			return to, false, d.rows.Err()
		}
		if n := len(to); n == cap(to) {
			to = slices.Grow(to, max(min(16*n, end-n), 20)) // append would copy a long page many times
		}
		to = append(to, annals.Event{})
		if err := d.event(&to[len(to)-1]); err != nil {
			return to, false, err
		}
	}
	return to, true, nil
}

// payloads is how many bytes the payloads of e have.
func payloads(e *annals.Event) int { return len(e.Data) + len(e.Metadata.Data) }

// allEvents returns the events of d's rows, limit at most, as collect does.
func allEvents(limit int, d *eventDecoder) (events []annals.Event, cut bool, err error) {
	defer d.rows.Close()
	return appendEvents(nil, limit+1, d)
}

// collect makes a T of each of d's rows, and closes the rows. cut says that there may be rows behind keptBytes of payloads.
func collect[T any](d *eventDecoder, as func(annals.Event) T) (all []T, cut bool, err error) {
	defer d.rows.Close()
	for bytes := 0; bytes < keptBytes; {
		if !d.rows.Next() {
			return all, false, d.rows.Err()
		}
		var e annals.Event
		if err := d.event(&e); err != nil {
			return all, false, err
		}
		bytes += payloads(&e)
		all = append(all, as(e))
	}
	return all, true, nil
}

// eventDecoder makes events of rows of eventColumns, and of rows of snapshots and states with the same columns. It reads rows in eventFormats
// itself, because pgx, which looks up the type of each value, takes about twice as long. The configuration of the pool may prevent these
// formats; then pgx reads the rows.
type eventDecoder struct {
	rows   pgx.Rows
	before int        // columns before the event's
	first  *time.Time // receives the first of them, unless it is nil
	id     interned
	ids    bool // the last of these columns is the id
	states bool // the rows are states: their numbers begin with 1, and those without a serializer id are tombstones
	binary bool

	manifest, writer, adapter interned

	parsed  string // the writer that was parsed to writeID
	writeID annals.WriteID
	chunk   []byte // the unused part of the last chunk
	size    int    // of the last chunk
}

// newEventDecoder reads rows of eventColumns of the entity id. If first is not nil, it receives the row's first column. If id is "", the
// column before the eventColumns is the id.
func newEventDecoder(rows pgx.Rows, id annals.PersistenceID, first *time.Time) *eventDecoder {
	fields := rows.FieldDescriptions()
	d := &eventDecoder{rows: rows, id: interned{string(id)}, ids: id == "", first: first, before: max(len(fields)-len(eventFormats), 0)}
	d.binary = len(fields) > 0 && slices.EqualFunc(fields[d.before:], eventFormats, func(f pgconn.FieldDescription, format int16) bool { return f.Format == format })
	return d
}

// event fills the zero Event e from the current row.
func (d *eventDecoder) event(e *annals.Event) (err error) {
	if d.binary {
		err = d.decode(e, d.rows.RawValues())
	} else {
		err = d.scan(e)
	}
	if err == nil {
		err = d.check(e)
	}
	if err != nil {
		return corrupt(d.id.text, e.SeqNr, err)
	}
	if d.writer.text != d.parsed {
		d.parsed = d.writer.text
		d.writeID, _ = writes.ParseID(d.parsed) // the name of a foreign writer may have another form: then it is zero
	}
	e.ID, e.WriteID = annals.PersistenceID(d.id.text), d.writeID
	e.Manifest, e.Adapter = d.manifest.text, d.adapter.text
	return nil
}

// Errors of rows that no writer leaves.
var (
	errNumber     = errors.New("no row has such a number")
	errSerializer = errors.New("a payload has the serializer id 0")
)

// check returns an error for values that no writer leaves.
func (d *eventDecoder) check(e *annals.Event) error {
	switch m := e.Metadata; {
	case e.SeqNr < 0, d.states && e.SeqNr == 0: // an actor can save a snapshot with the number 0
		return errNumber
	case e.SerializerID == 0 && !d.states, m.SerializerID == 0 && (m.Manifest != "" || m.Data != nil):
		return errSerializer
	}
	return nil
}

// decode reads a row of binary columns.
func (d *eventDecoder) decode(e *annals.Event, row [][]byte) (err error) {
	before, row := row[:d.before], row[d.before:]
	if d.ids {
		d.id.set(before[d.before-1])
	}
	if d.first != nil {
		if *d.first, err = wire.Time(before[0]); err != nil {
			return err
		}
	}
	seqNr, err := wire.Int(row[0])
	if err != nil {
		return err
	}
	e.SeqNr = annals.SeqNr(seqNr)
	if e.Time, err = wire.Time(row[1]); err != nil {
		return err
	}
	if e.SerializerID, err = wire.Int32(row[2]); err != nil {
		return err
	}
	d.manifest.set(row[3])
	e.Data = d.clone(row[4])
	d.writer.set(row[5])
	d.adapter.set(row[6])
	if e.Tags, err = wire.Texts(row[7]); err != nil || row[8] == nil {
		return err
	}
	if e.Metadata.SerializerID, err = wire.Int32(row[8]); err != nil {
		return err
	}
	e.Metadata.Manifest, e.Metadata.Data = string(row[9]), d.clone(row[10])
	return nil
}

// chunkSize is the most memory that small payloads of one read share: keeping one payload keeps no more than that.
const chunkSize = 4 << 10

// clone is a copy of b whose capacity is its length.
func (d *eventDecoder) clone(b []byte) []byte {
	if len(b) == 0 || len(b) > chunkSize/8 {
		return bytes.Clone(b)
	}
	if len(d.chunk) < len(b) {
		d.size = min(max(2*d.size, len(b)), chunkSize)
		d.chunk = make([]byte, d.size)
	}
	n := copy(d.chunk, b)
	c := d.chunk[:n:n]
	d.chunk = d.chunk[n:]
	return c
}

// scan reads a row of text columns.
func (d *eventDecoder) scan(e *annals.Event) error {
	var metaID *int32
	var metaManifest *string
	var meta []byte
	var tags pgtype.Array[string]
	into := make([]any, d.before)
	if d.first != nil {
		into[0] = d.first
	}
	if d.ids {
		into[d.before-1] = &d.id
	}
	err := d.rows.Scan(append(into, (*int64)(&e.SeqNr), &e.Time, &e.SerializerID, &d.manifest, &e.Data, &d.writer, &d.adapter,
		&tags, &metaID, &metaManifest, &meta)...)
	if err != nil {
		return err
	}
	e.Time, e.Tags = e.Time.UTC(), orNil(tags.Elements)
	if metaID != nil {
		e.Metadata.SerializerID, e.Metadata.Data = *metaID, meta
	}
	if metaID != nil && metaManifest != nil {
		e.Metadata.Manifest = *metaManifest
	}
	if len(tags.Dims) > 1 {
		return wire.ErrArray
	}
	return nil
}

// interned is a text column. A value that equals the one of the row before needs no new memory.
type interned struct{ text string }

func (i *interned) set(b []byte) {
	if string(b) != i.text {
		i.text = string(b)
	}
}

// ScanBytes implements pgtype.BytesScanner.
func (i *interned) ScanBytes(b []byte) error {
	i.set(b)
	return nil
}

// orNil returns nil for an empty list.
func orNil(tags []string) []string {
	if len(tags) == 0 {
		return nil
	}
	return tags
}
