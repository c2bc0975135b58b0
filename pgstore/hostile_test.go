package pgstore

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/valid"
)

// mark is part of all texts and payloads. An error must not contain it.
const mark = "§"

// The types of the columns that statements return.
var (
	eventTypes    = []uint32{pgtype.Int8OID, pgtype.TimestamptzOID, pgtype.Int4OID, pgtype.VarcharOID, pgtype.ByteaOID, pgtype.VarcharOID, pgtype.VarcharOID, pgtype.TextArrayOID, pgtype.Int4OID, pgtype.VarcharOID, pgtype.ByteaOID}
	recoverTypes  = append([]uint32{pgtype.Int4OID}, eventTypes...)
	idEventTypes  = append([]uint32{pgtype.VarcharOID}, eventTypes...)
	offsetTypes   = []uint32{pgtype.TimestamptzOID, pgtype.Int8OID, pgtype.VarcharOID}
	rangeTypes    = []uint32{pgtype.Int4OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.TimestamptzOID, pgtype.Int8OID, pgtype.VarcharOID}
	keyTypes      = []uint32{pgtype.VarcharOID, pgtype.TimestamptzOID, pgtype.Int4OID, pgtype.Int4OID}
	lookUpTypes   = []uint32{pgtype.Int8OID, pgtype.TimestamptzOID, pgtype.Int8OID, pgtype.TimestamptzOID}
	writesTypes   = []uint32{pgtype.Int8OID, pgtype.TextOID}
	receiptTypes  = []uint32{pgtype.TimestamptzOID}
	receiptsTypes = []uint32{pgtype.VarcharOID, pgtype.TimestamptzOID}
	numberTypes   = []uint32{pgtype.Int8OID}
	boolTypes     = []uint32{pgtype.BoolOID, pgtype.BoolOID}
	idTypes       = []uint32{pgtype.VarcharOID}
)

// FuzzHostileRows makes every call that reads rows. The server answers with rows of any values that the columns can hold, in the binary and
// in the text format. A call returns values that could have been written, or an error that says what is wrong, without the values. Tags may
// be empty texts, because the JVM writes such.
func FuzzHostileRows(f *testing.F) {
	for i := range 2 * 2 * len(recoverTypes) * 8 { // one or two rows of good values, but for one value of the last row
		format, rows, column, what := i%2, 1+i/2%2, i/4%len(recoverTypes), i/4/len(recoverTypes)
		script := []byte{byte(format), byte(rows)}
		for nr := range rows {
			for range recoverTypes {
				script = append(script, 1, byte(nr+1))
			}
		}
		script[len(script)-2*(len(recoverTypes)-column)] = byte(what)
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		h, id := &hostile{types: pgtype.NewMap()}, annals.PersistenceID("T|1")
		s, ctx := h.open(script), t.Context()
		allowed := func(what string, err error, kinds ...error) {
			t.Helper()
			if err == nil {
				return
			}
			e := (*annals.Error)(nil)
			ok := errors.As(err, &e)
			for _, kind := range append(kinds, annals.ErrCorrupt) {
				if ok && errors.Is(err, kind) {
					if e.Err != nil && strings.Contains(e.Err.Error(), mark) {
						t.Errorf("%s: the error holds what was read: %v", what, err)
					}
					return
				}
			}
			t.Errorf("%s: %v, want ErrCorrupt", what, err)
		}
		event := func(e annals.Event) {
			t.Helper()
			n := annals.NewEvent{Payload: e.Payload, Metadata: e.Metadata, Adapter: e.Adapter}
			if err := valid.Commit(annals.Commit{ID: id, After: max(e.SeqNr, 1) - 1, Events: []annals.NewEvent{n}}, annals.Limits{}); err != nil || e.SeqNr < 0 {
				t.Errorf("event %d was read, which no writer stores: %v", e.SeqNr, err)
			}
		}
		snapshot := func(n annals.Snapshot) {
			t.Helper()
			if n.Tags, n.Time = nil, (time.Time{}); n.SeqNr == 0 { // of an actor before its first event
				n.SeqNr = 1
			}
			if err := valid.Snapshot(n, annals.Limits{}); err != nil {
				t.Errorf("a snapshot was read that no writer stores: %v", err)
			}
		}
		state := func(n annals.State) {
			t.Helper()
			op := "put state"
			if n.Deleted {
				op = "delete state"
			}
			w := annals.StateWrite{ID: id, After: n.Revision - 1, Payload: n.Payload, Metadata: n.Metadata}
			if err := valid.StateWrite(op, w, annals.Limits{}); err != nil {
				t.Errorf("a state was read that no writer stores: %v", err)
			}
		}

		h.answer(eventTypes)
		for e, err := range s.Journal().Replay(ctx, id, 1, annals.MaxSeqNr) {
			if allowed("replay", err, annals.ErrTruncated); err == nil {
				event(e)
			}
		}
		h.answer(recoverTypes)
		_, err := ability.Recover(ctx, s, id, func(n annals.Snapshot) error { snapshot(n); return nil }, func(e annals.Event) error { event(e); return nil })
		allowed("recover", err, annals.ErrTruncated)
		h.answer(idEventTypes)
		for e, err := range s.Query().Events(ctx, annals.Filter{}) {
			if allowed("query events", err); err == nil {
				event(e)
			}
		}
		h.answer(numberTypes)
		n, err := s.Journal().LastSeqNr(ctx, id)
		if allowed("last number", err); n < 0 {
			t.Errorf("the last number is %d", n)
		}
		h.answer(eventTypes)
		latest, ok, err := s.Snapshots().Latest(ctx, id, annals.SnapshotCriteria{})
		if allowed("newest snapshot", err); ok {
			snapshot(latest)
		}
		h.answer(idEventTypes) // states have the columns of events
		got, ok, err := s.States().Get(ctx, id)
		if allowed("get state", err); ok {
			state(got)
		}
		for n, err := range s.Unwrap().(ability.StateFinder).FindStates(ctx, "T", "name", "x") {
			if allowed("find states", err); err == nil {
				state(n)
			}
		}
		for n, err := range s.Query().States(ctx, annals.Filter{}) {
			if allowed("query states", err); err == nil {
				state(n)
			}
		}
		h.answer(idTypes)
		for _, err := range s.Query().IDs(ctx, "T", "") {
			allowed("ids", err)
		}
		h.answer(rangeTypes, keyTypes, offsetTypes)
		positions, err := s.Offsets().Load(ctx, "p", annals.SliceRange{})
		allowed("load positions", err)
		for i, p := range positions {
			if from, to := p.Slices.Bounds(); err != nil || i == 0 && from != 0 || i > 0 && from != positions[i-1].Slices.To || from >= to {
				t.Errorf("positions %+v, error %v", positions, err)
			}
		}
		h.answer(rangeTypes, keyTypes, offsetTypes)
		_, err = s.Offsets().Handled(ctx, "p", id)
		allowed("load offsets", err)
		h.answer(offsetTypes)
		_, err = s.Query().Newest(ctx, annals.Filter{})
		allowed("newest offset", err)

		payload := annals.Payload{SerializerID: 4, Data: []byte("x")}
		events := []annals.NewEvent{{Payload: payload}, {Payload: payload}}
		h.answer(receiptTypes, lookUpTypes)
		_, err = s.Journal().Append(ctx, annals.Commit{ID: id, After: 1, Events: events[:1]})
		allowed("append", err, annals.ErrConflict)
		h.answer(receiptsTypes, lookUpTypes)
		_, err = s.Journal().Append(ctx, annals.Commit{ID: id, After: 1, Events: events})
		allowed("append two events", err, annals.ErrConflict)
		h.answer(receiptTypes, writesTypes)
		_, err = s.States().Put(ctx, annals.StateWrite{ID: id, After: 1, Payload: payload})
		allowed("put state", err, annals.ErrConflict, annals.ErrUnknown)
	})
}

// hostile is a transaction of a store, whose statements are answered with rows from a script.
type hostile struct {
	pgx.Tx
	types  *pgtype.Map
	script []byte
	text   bool       // all values are in the text format
	next   [][]uint32 // the columns of the answers; the last one stays
}

func (h *hostile) open(script []byte) *driver.Store {
	h.text = take(&script, 1)[0]%2 == 1
	h.script = script
	named := annals.StateType[pgx.Tx]{Columns: []string{"name"}, Bind: func(annals.State) (annals.Columns, error) { return nil, nil }}
	b := &backend{options: Options{StateTypes: map[string]annals.StateType[pgx.Tx]{"T": named}}, tables: akkaTables()}
	if err := b.settle(); err != nil {
		panic(err)
	}
	of := func(name string, s shape) *table {
		t := &table{name: quote(name), shape: s, columns: map[string]column{"name": {typ: "text", oid: pgtype.TextOID}}, key: s.keys[0]}
		for _, c := range s.columns {
			t.columns[c.Name] = column{typ: typesOf[c.Type][0]}
		}
		return t
	}
	b.journal, b.snapshot, b.offset, b.epoch = of(b.tables.Journal, journalShape), of(b.tables.Snapshot, snapshotShape), of(b.tables.TimestampOffset, offsetShape), of(b.tables.Epoch, epochShape)
	_ = b.verifyStates(of)
	b.prepare()
	return driver.New(&view{b, &transaction{tx: h, ctx: context.Background()}}, driver.Options{Name: "postgres"})
}

// answer sets the columns of the answers to come.
func (h *hostile) answer(types ...[]uint32) { h.next = types }

// Exec implements pgx.Tx, for statements that return no rows.
func (h *hostile) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, nil
}

// Query implements pgx.Tx.
func (h *hostile) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	types := h.next[0]
	switch {
	case strings.Contains(sql, "SELECT EXISTS (SELECT FROM"): // is there a reason for a missing number?
		types = boolTypes
	case strings.HasPrefix(sql, "SELECT coalesce((SELECT seq_nr FROM"): // the last number
		types = numberTypes
	case len(h.next) > 1:
		h.next = h.next[1:]
	}
	r := &hostileRows{types: h.types}
	formats, chosen := pgx.QueryResultFormats(nil), false
	if len(args) > 0 {
		formats, chosen = args[0].(pgx.QueryResultFormats)
	}
	script := h.script // each answer is the same script
	count := take(&script, 1)[0]
	wide := count&4 != 0
	for i, oid := range types {
		if wide && oid == pgtype.Int4OID {
			oid = pgtype.Int8OID // a column for small numbers may be a bigint
		}
		field := pgconn.FieldDescription{Name: "column", DataTypeOID: oid, Format: h.types.FormatCodeForOID(oid)}
		if chosen {
			field.Format = formats[i]
		}
		if h.text {
			field.Format = pgx.TextFormatCode
		}
		r.fields = append(r.fields, field)
	}
	n := int(count) % 4
	if slices.Equal(types, boolTypes) || slices.Equal(types, numberTypes) || slices.Equal(types, lookUpTypes) {
		n = 1 // whatever is stored
	}
	for range n {
		r.rows = append(r.rows, r.row(&script))
	}
	return r, nil
}

// QueryRow implements pgx.Tx.
func (h *hostile) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, _ := h.Query(ctx, sql, args...)
	return hostileRow{rows}
}

type hostileRow struct{ pgx.Rows }

func (r hostileRow) Scan(into ...any) error {
	defer r.Close()
	if !r.Next() {
		return pgx.ErrNoRows
	}
	return r.Rows.Scan(into...)
}

// hostileRows are the rows of one answer. Scan works as that of pgx.
type hostileRows struct {
	pgx.Rows
	types   *pgtype.Map
	fields  []pgconn.FieldDescription
	rows    [][][]byte
	current [][]byte
	err     error
}

func (r *hostileRows) Close()                                       { r.rows = nil }
func (r *hostileRows) Err() error                                   { return r.err }
func (r *hostileRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (r *hostileRows) FieldDescriptions() []pgconn.FieldDescription { return r.fields }
func (r *hostileRows) RawValues() [][]byte                          { return r.current }

func (r *hostileRows) Next() bool {
	if len(r.rows) == 0 {
		return false
	}
	r.current, r.rows = r.rows[0], r.rows[1:]
	return true
}

func (r *hostileRows) Scan(into ...any) error {
	for i, v := range into {
		f := r.fields[i]
		if err := r.types.PlanScan(f.DataTypeOID, f.Format, v).Scan(r.current[i], v); err != nil {
			r.err = pgx.ScanArgError{ColumnIndex: i, FieldName: f.Name, Err: err}
			r.Close()
			return r.err
		}
	}
	return nil
}

// row takes the values of a row from a script.
func (r *hostileRows) row(script *[]byte) [][]byte {
	row := make([][]byte, len(r.fields))
	for i, f := range r.fields {
		value := hostileValue(f.DataTypeOID, script)
		if value == nil {
			continue
		}
		b, err := r.types.Encode(f.DataTypeOID, f.Format, value, []byte{})
		if err != nil {
			panic(err)
		}
		row[i] = b
	}
	return row
}

// hostileValue takes a value that a column can hold from a script: a byte that says which one, and a byte or more for the others.
func hostileValue(oid uint32, script *[]byte) any {
	what := take(script, 1)[0] % 8
	if what == 0 {
		return nil
	}
	small := int64(take(script, 1)[0])
	number := func() int64 { return int64(binary.BigEndian.Uint64(take(script, 8))) }
	switch oid {
	case pgtype.BoolOID:
		return small%2 == 1
	case pgtype.Int4OID:
		return map[byte]int64{1: small, 2: 0, 3: -small, 4: 1<<31 - 1, 5: -1 << 31}[what]
	case pgtype.Int8OID:
		switch what {
		case 2:
			return int64(0)
		case 3:
			return -small
		case 4:
			return int64(1<<63 - 1)
		case 5:
			return int64(-1 << 63)
		case 6:
			return small + 1<<32
		case 7:
			return number()
		}
		return small
	case pgtype.TimestamptzOID:
		at := pgtype.Timestamptz{Time: time.UnixMilli(1700000000000 + small), Valid: true}
		switch what {
		case 2:
			at.InfinityModifier = pgtype.Infinity
		case 3:
			at.InfinityModifier = pgtype.NegativeInfinity
		case 4:
			at.Time = time.Date(294276, 12, 31, 0, 0, 0, 0, time.UTC)
		case 5:
			at.Time = time.Date(-4712, 1, 1, 0, 0, 0, 0, time.UTC)
		case 7:
			at.Time = time.UnixMicro(number() / 64)
		}
		return at
	case pgtype.TextArrayOID:
		a := pgtype.Array[*string]{Dims: []pgtype.ArrayDimension{{Length: 1, LowerBound: 1}}, Valid: true}
		text := hostileText(what, small, script)
		a.Elements = []*string{&text}
		switch what {
		case 2:
			a.Dims, a.Elements = nil, nil
		case 3:
			a.Elements = []*string{nil}
		case 4:
			a.Dims = append(a.Dims, a.Dims[0])
		case 5:
			a.Dims[0] = pgtype.ArrayDimension{Length: 2, LowerBound: -7}
			a.Elements = append(a.Elements, &text)
		}
		return a
	case pgtype.ByteaOID:
		return []byte(hostileText(what, small, script))
	default:
		return hostileText(what, small, script)
	}
}

// hostileText is a text without zero bytes, as the server keeps them.
func hostileText(what byte, length int64, script *[]byte) string {
	switch what {
	case 1:
		return "text"
	case 2:
		return ""
	case 3, 4, 5:
		return mark
	}
	return strings.ToValidUTF8(strings.ReplaceAll(string(take(script, int(length))), "\x00", "0"), mark)
}

// take removes n bytes from a script; after its end they are zero.
func take(script *[]byte, n int) []byte {
	part := make([]byte, n)
	*script = (*script)[copy(part, *script):]
	return part
}
