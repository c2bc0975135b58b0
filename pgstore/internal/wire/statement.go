package wire

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

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

// Text adds a text.
func (p *Parameters) Text(s string) { p.add([]byte(s)) }

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

// Values takes the values of one row, in the order of a statement's parameters.
type Values interface {
	Null()
	Bytes(b []byte)
	Text(s string)
	Int32(n int32)
	Int64(n int64)
}

// Arrays are the parameters of one statement for many rows, an array for each column. Its methods are as those of Parameters: they add the values
// row by row.
type Arrays struct {
	arrays  [][]byte
	rows, n int // n values were added
}

const arrayHeader = 20

// NewArrays is for so many rows, neither more nor less, with values of the types oids. There are maxParameters of them at most.
func NewArrays(rows int, oids ...uint32) *Arrays {
	a := &Arrays{arrays: make([][]byte, len(oids)), rows: rows}
	for i, oid := range oids {
		a.arrays[i] = make([]byte, arrayHeader)
		// dimensions, whether there are NULLs, the type, the number of elements, the first index
		for field, value := range [arrayHeader / 4]uint32{1, 0, oid, uint32(rows), 1} {
			binary.BigEndian.PutUint32(a.arrays[i][4*field:], value)
		}
	}
	return a
}

// Parameters are the arrays. Nothing is added to them afterwards.
func (a *Arrays) Parameters() *Parameters {
	p := &Parameters{}
	for _, array := range a.arrays {
		p.add(array)
	}
	return p
}

// add begins the next value, of so many bytes, and returns its array. -1 is NULL.
func (a *Arrays) add(length int) *[]byte {
	array := &a.arrays[a.n%len(a.arrays)]
	if a.n < len(a.arrays) { // of the first row: the others may be like it
		*array = slices.Grow(*array, a.rows*min(8+length, 1<<10))
	}
	a.n++
	*array = binary.BigEndian.AppendUint32(*array, uint32(length))
	return array
}

// Null is Values.
func (a *Arrays) Null() { (*a.add(-1))[7] = 1 }

// Bytes is Values. nil is empty, not NULL.
func (a *Arrays) Bytes(b []byte) {
	array := a.add(len(b))
	*array = append(*array, b...)
}

// Text is Values.
func (a *Arrays) Text(s string) {
	array := a.add(len(s))
	*array = append(*array, s...)
}

// Int32 is Values.
func (a *Arrays) Int32(n int32) {
	array := a.add(4)
	*array = binary.BigEndian.AppendUint32(*array, uint32(n))
}

// Int64 is Values.
func (a *Arrays) Int64(n int64) {
	array := a.add(8)
	*array = binary.BigEndian.AppendUint64(*array, uint64(n))
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
