package pgstore

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/pgstore/internal/wire"
)

// insert writes the commits that win, in one statement, and sets their times. The commits are of different entities, sorted by id. When another
// process takes a number meanwhile, the statement fails unless raced is true.
func (s *backend) insert(ctx context.Context, q querier, commits []*commit, raced bool) error {
	sql := s.sql.appendEach
	switch {
	case !allSingle(commits):
		sql = s.sql.appendAll
	case raced:
		sql = s.sql.appendRaced
	}
	return s.insertBy(ctx, q, sql, commits)
}

func allSingle(commits []*commit) bool {
	return !slices.ContainsFunc(commits, func(m *commit) bool { return !m.single() })
}

// singleTypes are the types of the values of a single event.
var singleTypes = []uint32{pgtype.Int4OID, pgtype.TextOID, pgtype.TextOID, pgtype.Int8OID, pgtype.TextOID, pgtype.Int4OID, pgtype.TextOID, pgtype.ByteaOID,
	pgtype.TextOID, pgtype.TextOID, pgtype.Int4OID, pgtype.TextOID, pgtype.ByteaOID}

// values adds the values of a single event, in the order of the parameters of appendFirst, appendNext and appendEach.
func (m *commit) values(p *wire.Parameters) {
	e := &m.events[0]
	p.Int32(int32(m.id.Slice()))
	p.Text(m.id.Type())
	p.Text(string(m.id))
	p.Int64(int64(m.after))
	p.Text(m.writer)
	p.Int32(e.SerializerID)
	p.Text(e.Manifest)
	p.Bytes(e.Data)
	if e.Adapter != "" {
		p.Text(e.Adapter)
	} else {
		p.Null()
	}
	if tags := wire.TextArray(e.Tags); tags != nil {
		p.Text(*tags)
	} else {
		p.Null()
	}
	if e.Metadata.SerializerID != 0 {
		p.Int32(e.Metadata.SerializerID)
		p.Text(e.Metadata.Manifest)
		p.Bytes(e.Metadata.Data)
	} else {
		p.Null()
		p.Null()
		p.Null()
	}
}

// insertEach is insert of single events over a connection for groups. It puts the parameters on the wire itself, as insertDirectly does.
func (s *backend) insertEach(ctx context.Context, commits []*commit, raced bool) error {
	var p wire.Parameters
	arrays := wire.NewArrays(len(commits), singleTypes...)
	for _, m := range commits {
		m.values(&p)
		arrays.Add(&p)
	}
	name, sql := "annals_append_each", s.sql.appendEach
	if raced {
		name, sql = "annals_append_raced", s.sql.appendRaced
	}
	won := winners(commits)
	return s.sendDirectly(ctx, name, sql, arrays.Parameters(), func(row [][]byte) error {
		at, err := wire.Time(row[1])
		won(row[0], at)
		return err
	})
}

// winners returns the function that sets the time of the commit with an id; the others have none. The ids come in the order of the commits, so
// each is found at once. The commits have won only if the statement ends without an error: rows arrive before the server has completed it.
func winners(commits []*commit) func(id []byte, at time.Time) {
	for _, m := range commits {
		m.at = time.Time{}
	}
	next := 0
	return func(id []byte, at time.Time) {
		for range commits {
			m := commits[next%len(commits)]
			if next++; string(m.id) == string(id) {
				m.at = at
				return
			}
		}
	}
}

// insertBy runs appendEach, appendRaced, appendAll or appendDeleted.
func (s *backend) insertBy(ctx context.Context, q querier, sql string, commits []*commit) error {
	rows, err := q.Query(ctx, sql, parameters(commits, sql == s.sql.appendAll || sql == s.sql.appendDeleted)...)
	if err != nil {
		return err
	}
	var id []byte
	var at time.Time
	won := winners(commits)
	_, err = pgx.ForEachRow(rows, []any{&id, &at}, func() error { won(id, at); return nil })
	return err
}

// parameters are those of appendEach and, with further, of appendAll.
func parameters(commits []*commit, further bool) []any {
	type event struct {
		nr, seqNr int64
		*annals.NewEvent
	}
	var events []event
	for i, m := range commits {
		for n := range m.events {
			events = append(events, event{int64(i + 1), int64(m.after) + int64(n) + 1, &m.events[n]})
		}
	}
	all := []any{
		columnOf(commits, func(m *commit) int32 { return int32(m.id.Slice()) }),
		columnOf(commits, func(m *commit) string { return m.id.Type() }),
		columnOf(commits, func(m *commit) string { return string(m.id) }),
		columnOf(commits, func(m *commit) int64 { return int64(m.after) }),
		columnOf(commits, func(m *commit) string { return m.writer }),
		columnOf(events, func(e event) int32 { return e.SerializerID }),
		columnOf(events, func(e event) string { return e.Manifest }),
		columnOf(events, func(e event) []byte { return notNil(e.Data) }),
		columnOf(events, func(e event) string { return e.Adapter }),
		columnOf(events, func(e event) *string { return wire.TextArray(e.Tags) }),
		columnOf(events, func(e event) *int32 { id, _, _ := metaColumns(&e.Metadata); return id }),
		columnOf(events, func(e event) *string { _, manifest, _ := metaColumns(&e.Metadata); return manifest }),
		columnOf(events, func(e event) []byte { _, _, data := metaColumns(&e.Metadata); return data }),
	}
	if !further {
		return all
	}
	return append(all,
		columnOf(commits, func(m *commit) *time.Time { return timeOrNull(&m.latest) }),
		columnOf(events, func(e event) int64 { return e.nr }),
		columnOf(events, func(e event) int64 { return e.seqNr }),
		columnOf(events, func(e event) *time.Time { return timeOrNull(&e.Time) }))
}

// columnOf is a value of each row.
func columnOf[R, V any](rows []R, value func(R) V) []V {
	all := make([]V, len(rows))
	for i, r := range rows {
		all[i] = value(r)
	}
	return all
}

func timeOrNull(t *time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return t
}

// metaColumns are the three columns of metadata: all of them NULL, or none.
func metaColumns(p *annals.Payload) (id *int32, manifest *string, data []byte) {
	if p.SerializerID == 0 {
		return nil, nil, nil
	}
	return &p.SerializerID, &p.Manifest, notNil(p.Data)
}

// notNil keeps an empty payload from becoming NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
