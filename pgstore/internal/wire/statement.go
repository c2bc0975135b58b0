package wire

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Direct reports whether statements of connections made by config may be sent by Send. A tracer would not see them, and a pooler that
// keeps no prepared statements would not understand them.
func Direct(config *pgxpool.Config) bool {
	c := config.ConnConfig
	return c.Tracer == nil && c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement
}

// Parameters are those of one statement, in the binary format. The driver's own conversion looks up the type of each value. There are
// maxParameters of them at most. The zero value has none.
type Parameters struct {
	values  [maxParameters][]byte
	n       int
	numbers [8 * maxParameters]byte // the memory of the numbers in values
}

const maxParameters = 13

// Null adds a NULL.
func (p *Parameters) Null() { p.add(nil) }

func (p *Parameters) add(value []byte) {
	p.values[p.n] = value
	p.n++
}

// Bytes adds a bytea. nil is empty, not NULL.
func (p *Parameters) Bytes(b []byte) {
	if b == nil {
		b = []byte{}
	}
	p.add(b)
}

// Text adds a text, whose memory is only read.
func (p *Parameters) Text(s string) { p.Bytes(unsafe.Slice(unsafe.StringData(s), len(s))) }

// Int32 adds an integer.
func (p *Parameters) Int32(n int32) {
	b := p.numbers[8*p.n:][:4]
	binary.BigEndian.PutUint32(b, uint32(n))
	p.add(b)
}

// Int64 adds a bigint.
func (p *Parameters) Int64(n int64) {
	b := p.numbers[8*p.n:][:8]
	binary.BigEndian.PutUint64(b, uint64(n))
	p.add(b)
}

// Arrays are the parameters of one statement for many rows, an array for each column. One without any value is NULL, which unnest fills up with
// NULLs: that costs the server less.
type Arrays struct {
	oids       []uint32
	arrays     [][]byte
	rows, left int // so many rows, of which some are left to add
}

// NewArrays is for so many rows, neither more nor less, with values of the types oids. There are maxParameters of them at most.
func NewArrays(rows int, oids ...uint32) *Arrays {
	return &Arrays{oids: oids, arrays: make([][]byte, len(oids)), rows: rows, left: rows}
}

// Add adds a row with the values of p, and empties p.
func (a *Arrays) Add(p *Parameters) {
	for i, value := range p.values[:p.n] {
		array := a.arrays[i]
		switch {
		case value != nil && array == nil:
			array = a.begin(i, len(value))
		case value == nil && array == nil:
			continue
		}
		a.arrays[i] = appendElement(array, value)
	}
	p.n = 0
	a.left--
}

// begin begins an array with NULL for each row before. The values may be about as long as the first one.
func (a *Arrays) begin(i, length int) []byte {
	array := make([]byte, 0, 20+a.rows*min(8+length, 1<<10))
	// dimensions, whether there are NULLs, the type, the number of elements, the first index
	for _, value := range [...]uint32{1, 0, a.oids[i], uint32(a.rows), 1} {
		array = binary.BigEndian.AppendUint32(array, value)
	}
	for range a.rows - a.left {
		array = appendElement(array, nil)
	}
	return array
}

func appendElement(array, value []byte) []byte {
	if value == nil {
		array[7] = 1
		return binary.BigEndian.AppendUint32(array, math.MaxUint32)
	}
	return append(binary.BigEndian.AppendUint32(array, uint32(len(value))), value...)
}

// Parameters are the arrays. Nothing is added to them afterwards.
func (a *Arrays) Parameters() *Parameters {
	p := &Parameters{}
	for _, array := range a.arrays {
		p.add(array)
	}
	return p
}

var binaryFormat = []int16{pgx.BinaryFormatCode}

// Send runs a statement that conn has prepared, and calls row with the values of each row, in the binary format. The values are valid
// until row returns. Only a nil error says that the server has completed the statement: rows arrive before that.
func Send(ctx context.Context, conn *pgconn.PgConn, statement *pgconn.StatementDescription, p *Parameters, row func(values [][]byte) error) error {
	rows := conn.ExecStatement(ctx, statement, p.values[:p.n], binaryFormat, binaryFormat)
	var err error
	for rows.NextRow() {
		if err == nil {
			err = row(rows.Values())
		}
	}
	if _, failed := rows.Close(); failed != nil {
		return failed
	}
	return err
}

// Ask sends a statement that returns one row and has no parameters. It needs one round trip, prepares nothing, and returns the
// row's values as text.
func Ask(ctx context.Context, conn *pgconn.PgConn, sql string) ([]string, error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	last := results[len(results)-1]
	if len(last.Rows) != 1 {
		return nil, fmt.Errorf("the server gave %d rows, not one", len(last.Rows))
	}
	row := make([]string, len(last.Rows[0]))
	for i, text := range last.Rows[0] {
		row[i] = string(text)
	}
	return row, nil
}
