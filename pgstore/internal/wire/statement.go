package wire

import (
	"context"
	"encoding/binary"
	"fmt"

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

// Array adds an array. Nothing is added to it afterwards.
func (p *Parameters) Array(a *Array) { p.add(a.encoded()) }

// Array is an array of one dimension, in the binary format.
type Array struct {
	data  []byte
	n     uint32
	nulls uint32 // 1 when there are some
	oid   uint32
}

const arrayHeader = 20

// NewArray is an array of elements of the type oid without elements. It has memory for n of them, with so many bytes together.
func NewArray(oid uint32, n, bytes int) *Array {
	return &Array{data: make([]byte, arrayHeader, arrayHeader+4*n+bytes), oid: oid}
}

// Null adds a NULL.
func (a *Array) Null() { a.nulls = 1; a.add(-1) }

func (a *Array) add(length int32) {
	a.n++
	a.data = binary.BigEndian.AppendUint32(a.data, uint32(length))
}

// Text adds a text.
func (a *Array) Text(s string) {
	a.add(int32(len(s)))
	a.data = append(a.data, s...)
}

// Bytes adds a bytea. nil is empty, not NULL.
func (a *Array) Bytes(b []byte) {
	a.add(int32(len(b)))
	a.data = append(a.data, b...)
}

// Int32 adds an integer.
func (a *Array) Int32(n int32) {
	a.add(4)
	a.data = binary.BigEndian.AppendUint32(a.data, uint32(n))
}

// Int64 adds a bigint.
func (a *Array) Int64(n int64) {
	a.add(8)
	a.data = binary.BigEndian.AppendUint64(a.data, uint64(n))
}

// encoded is the array with its header: dimensions, whether there are NULLs, the type, the number of elements, and the first index.
func (a *Array) encoded() []byte {
	for i, field := range [arrayHeader / 4]uint32{1, a.nulls, a.oid, a.n, 1} {
		binary.BigEndian.PutUint32(a.data[4*i:], field)
	}
	return a.data
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
