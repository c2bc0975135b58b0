package sqlitestore

import (
	"bytes"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/valid"
)

// mark is part of every text and blob of a row. No error may contain it.
const mark = "§"

// decoders are all decoders of rows, with their numbers of columns. They panic when they accept values that could not have been
// written.
var decoders = []struct {
	name    string
	columns int
	decode  func(*values) error
}{
	{"event", 13, func(v *values) error {
		row := eventRow{Event: annals.Event{ID: "T|1"}}
		if err := row.read(v); err != nil || row.deleted {
			return err
		}
		n := annals.NewEvent{Payload: row.Payload, Metadata: row.Metadata, Tags: row.Tags}
		return mustBeValid(valid.Commit(annals.Commit{ID: row.ID, After: row.SeqNr - 1, Events: []annals.NewEvent{n}}, annals.Limits{}))
	}},
	{"snapshot", 10, func(v *values) error {
		s, err := readSnapshot(v, "T|1")
		if err != nil {
			return err
		}
		return mustBeValid(valid.Snapshot(s, annals.Limits{}))
	}},
	{"state", 11, func(v *values) error {
		s, err := readState(v)
		if err != nil {
			return err
		}
		op := "put state"
		if s.Deleted {
			op = "delete state"
		}
		w := annals.StateWrite{ID: s.ID, After: s.Revision - 1, Payload: s.Payload, Tags: s.Tags, Metadata: s.Metadata}
		return mustBeValid(valid.StateWrite(op, w, annals.Limits{}))
	}},
	{"offset", 3, func(v *values) error {
		o := readOffset(v)
		if err := v.corrupt(); err != nil {
			return err
		}
		return mustBeValid(valid.Progress("save offsets", annals.Progress{Projection: "p", Offsets: []annals.Offset{o}}, annals.Limits{}))
	}},
}

// mustBeValid panics when a decoder has accepted values that could not have been written.
func mustBeValid(err error) error {
	if err != nil {
		panic(err)
	}
	return nil
}

// FuzzRows gives each decoder a row of arbitrary values. A decoder accepts values that could have been written, and returns
// ErrCorrupt for all others, without the values in the error.
func FuzzRows(f *testing.F) {
	const uuid = "00000000-0000-0000-0000-000000000001"
	f.Add(script(int64(0), uuid, "", int64(1), int64(2), int64(3), "manifest", []byte("payload"), nil, nil, nil, nil, nil))
	f.Add(script(int64(0), uuid, "", int64(1), int64(2), int64(3), "", []byte{}, `["a","b"]`, int64(7), "m", []byte("metadata"), nil))
	f.Add(script(int64(0), mark, mark, int64(1), int64(2), int64(3), mark, []byte(mark), mark, int64(7), mark, []byte(mark), nil))
	f.Add(script(int64(-1), uuid, "", int64(1), int64(-2), int64(math.MaxInt64), "", []byte{}, `[""]`, int64(math.MinInt64), "m", nil, nil))
	f.Add(script(int64(1), int64(2), int64(3), "manifest", []byte("state"), `["a"]`, nil, nil, nil))
	f.Add(script("T|1", int64(1), int64(2), int64(0), "", []byte{}, nil))
	f.Add(script(int64(1), int64(math.MinInt64/4), int64(2), "manifest", []byte("snapshot"), nil, nil, nil, nil, nil)) // of no year that a snapshot can have
	f.Add(script("T|1", 0.5, "2", nil, []byte("x"), "x", `[1]`))
	f.Add(script(nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, d := range decoders {
			v := &values{row: play(text, d.columns)}
			err := d.decode(v)
			e := (*annals.Error)(nil)
			switch {
			case err == nil:
			case !errors.As(err, &e) || e.Kind != annals.ErrCorrupt:
				t.Errorf("%s: %v, want ErrCorrupt", d.name, err)
			case strings.Contains(e.Err.Error(), mark):
				t.Errorf("%s: the error holds what was read: %v", d.name, err)
			}
			if v.next != d.columns {
				t.Errorf("%s: %d columns were decoded, want %d", d.name, v.next, d.columns)
			}
		}
	})
}

// script encodes a row as bytes: for each value its type, then eight bytes of a number, or a length and as many bytes.
func script(row ...any) []byte {
	var b bytes.Buffer
	for _, value := range row {
		switch value := value.(type) {
		case nil:
			b.WriteByte(0)
		case int64:
			b.WriteByte(1)
			b.Write(binary.BigEndian.AppendUint64(nil, uint64(value)))
		case float64:
			b.WriteByte(2)
			b.Write(binary.BigEndian.AppendUint64(nil, math.Float64bits(value)))
		case string:
			b.WriteByte(3)
			b.WriteByte(byte(len(value)))
			b.WriteString(value)
		case []byte:
			b.WriteByte(4)
			b.WriteByte(byte(len(value)))
			b.Write(value)
		}
	}
	return b.Bytes()
}

// play decodes a row that script has encoded. Values after its end are NULL.
func play(script []byte, columns int) []driver.Value {
	row := make([]driver.Value, columns)
	next := func(n int) []byte {
		part := make([]byte, n)
		script = script[copy(part, script):]
		return part
	}
	for i := range row {
		switch next(1)[0] % 5 {
		case 1:
			row[i] = int64(binary.BigEndian.Uint64(next(8)))
		case 2:
			row[i] = math.Float64frombits(binary.BigEndian.Uint64(next(8)))
		case 3:
			row[i] = string(next(int(next(1)[0])))
		case 4:
			row[i] = next(int(next(1)[0]))
		}
	}
	return row
}

// A row is read as it was written.
func TestScript(t *testing.T) {
	t.Parallel()
	want := []any{nil, int64(-7), 0.25, "text", []byte("blob")}
	if got := play(script(want...), 5); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
