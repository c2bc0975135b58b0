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

// insert writes the commits that win, in one statement, and returns the time of each of those by its id. The commits
// are of different entities, sorted by id. When another process takes a number meanwhile, the statement fails unless raced is true.
func (s *backend) insert(ctx context.Context, q querier, commits []*commit, raced bool) (map[annals.PersistenceID]time.Time, error) {
	a := arraysOf(commits)
	if !allSingle(commits) {
		return inserted(ctx, q, s.sql.appendAll, a.all())
	}
	sql := s.sql.appendEach
	if raced {
		sql = s.sql.appendRaced
	}
	return inserted(ctx, q, sql, a.each())
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
	p.Text(e.Adapter)
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
func (s *backend) insertEach(ctx context.Context, commits []*commit, raced bool) (map[annals.PersistenceID]time.Time, error) {
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
	times := make(map[annals.PersistenceID]time.Time, len(commits))
	err := s.sendDirectly(ctx, name, sql, arrays.Parameters(), func(row [][]byte) error {
		at, err := wire.Time(row[1])
		times[annals.PersistenceID(row[0])] = at
		return err
	})
	if err != nil { // rows arrive before the server has completed the statement
		return nil, err
	}
	return times, nil
}

// inserted runs a statement for many commits. With an error it returns no times: rows arrive before the server has completed the
// statement, and it may still undo them.
func inserted(ctx context.Context, q querier, sql string, args []any) (map[annals.PersistenceID]time.Time, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	times := map[annals.PersistenceID]time.Time{}
	var id annals.PersistenceID
	var at time.Time
	if _, err = pgx.ForEachRow(rows, []any{(*string)(&id), &at}, func() error {
		times[id] = at
		return nil
	}); err != nil {
		return nil, err
	}
	return times, nil
}

// arrays are the parameters of a statement for many commits: those before nr have one element per commit, the others one per event.
type arrays struct {
	slice      []int32
	entityType []string
	id         []string
	after      []int64
	writer     []string
	latest     []*time.Time

	nr, seqNr    []int64
	adapter      []string
	serID        []int32
	manifest     []string
	payload      [][]byte
	tags         []*string
	metaID       []*int32
	metaManifest []*string
	meta         [][]byte
	at           []*time.Time
}

func arraysOf(commits []*commit) *arrays {
	n, events := len(commits), 0
	for _, m := range commits {
		events += len(m.events)
	}
	a := &arrays{
		slice: make([]int32, 0, n), entityType: make([]string, 0, n), id: make([]string, 0, n),
		after: make([]int64, 0, n), writer: make([]string, 0, n), latest: make([]*time.Time, 0, n),
		nr: make([]int64, 0, events), seqNr: make([]int64, 0, events), adapter: make([]string, 0, events), serID: make([]int32, 0, events),
		manifest: make([]string, 0, events), payload: make([][]byte, 0, events), tags: make([]*string, 0, events),
		metaID: make([]*int32, 0, events), metaManifest: make([]*string, 0, events), meta: make([][]byte, 0, events), at: make([]*time.Time, 0, events),
	}
	for i, m := range commits {
		a.add(int64(i+1), m)
	}
	return a
}

// all are the parameters of appendAll and appendDeleted.
func (a *arrays) all() []any {
	return []any{a.slice, a.entityType, a.id, a.after, a.writer, a.latest, a.nr, a.seqNr,
		a.adapter, a.serID, a.manifest, a.payload, a.tags, a.metaID, a.metaManifest, a.meta, a.at}
}

// each are the parameters of appendEach.
func (a *arrays) each() []any {
	return []any{a.slice, a.entityType, a.id, a.after, a.writer,
		a.serID, a.manifest, a.payload, a.adapter, a.tags, a.metaID, a.metaManifest, a.meta}
}

func (a *arrays) add(nr int64, m *commit) {
	a.slice = append(a.slice, int32(m.id.Slice()))
	a.entityType = append(a.entityType, m.id.Type())
	a.id = append(a.id, string(m.id))
	a.after = append(a.after, int64(m.after))
	a.writer = append(a.writer, m.writer)
	a.latest = append(a.latest, timeOrNull(&m.latest))
	for i := range m.events {
		e := &m.events[i]
		metaID, metaManifest, meta := metaColumns(e.Metadata)
		a.nr = append(a.nr, nr)
		a.seqNr = append(a.seqNr, int64(m.after)+int64(i)+1)
		a.adapter = append(a.adapter, e.Adapter)
		a.serID = append(a.serID, e.SerializerID)
		a.manifest = append(a.manifest, e.Manifest)
		a.payload = append(a.payload, notNil(e.Data))
		a.tags = append(a.tags, wire.TextArray(e.Tags))
		a.metaID = append(a.metaID, metaID)
		a.metaManifest = append(a.metaManifest, metaManifest)
		a.meta = append(a.meta, meta)
		a.at = append(a.at, timeOrNull(&e.Time))
	}
}

func timeOrNull(t *time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return t
}

// metaColumns are the three columns of metadata: all of them NULL, or none.
func metaColumns(p annals.Payload) (id *int32, manifest *string, data []byte) {
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
