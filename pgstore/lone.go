package pgstore

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// plain reports whether m is one event with nothing but its payload.
func (m *commit) plain() bool {
	e := &m.events[0]
	return len(m.events) == 1 && len(e.Tags) == 0 && e.Metadata.SerializerID == 0 && e.Adapter == ""
}

// direct reports whether the store may put the parameters of its hottest statement on the wire itself: the driver's way through its
// type map takes longer than the look at the last number. A tracer would not see that, and a pooler that keeps no prepared
// statements would not understand it.
func direct(config *pgxpool.Config) bool {
	c := config.ConnConfig
	return c.Tracer == nil && c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement
}

var binaryFormat = []int16{pgx.BinaryFormatCode}

// insertPlain is insertOne of a plain commit over a connection for groups, whose socket bounds it: a context of its own would
// cost more.
func (s *Store) insertPlain(ctx context.Context, m *commit) (at time.Time, won bool, err error) {
	conn, err := s.group.Acquire(ctx)
	if err != nil {
		return time.Time{}, false, &undoneError{err}
	}
	defer conn.Release()
	name, sql := "annals_append_next", s.sql.appendNext[0]
	if m.after == 0 {
		name, sql = "annals_append_first", s.sql.appendFirst[0]
	}
	prepared, err := conn.Conn().Prepare(ctx, name, sql) // once per connection
	if err != nil {
		return time.Time{}, false, &undoneError{err}
	}
	e := &m.events[0]
	var numbers [16]byte
	binary.BigEndian.PutUint32(numbers[0:], uint32(m.id.Slice()))
	binary.BigEndian.PutUint64(numbers[4:], uint64(m.after))
	binary.BigEndian.PutUint32(numbers[12:], uint32(e.SerializerID))
	parameters := [...][]byte{numbers[:4], []byte(m.id.Type()), []byte(m.id), numbers[4:12], []byte(m.writer), numbers[12:], []byte(e.Manifest), notNil(e.Data)}
	rows := conn.Conn().PgConn().ExecStatement(ctx, prepared, parameters[:], binaryFormat, binaryFormat)
	for rows.NextRow() {
		at, err = decodeTime(rows.Values()[0])
		won = err == nil
	}
	if _, failed := rows.Close(); failed != nil {
		if server := (*pgconn.PgError)(nil); errors.As(failed, &server) && outdated(server) {
			_ = conn.Conn().Close(ctx)
		}
		return time.Time{}, false, failed
	}
	return at, won, err
}
