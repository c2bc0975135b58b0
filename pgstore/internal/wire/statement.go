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
