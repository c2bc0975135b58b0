package pgstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
)

// insertOne writes m alone. It returns false when m.after is not the last number; then, or in a rare race, as an error that
// unique knows.
func (s *Store) insertOne(ctx context.Context, q querier, m *commit) (at time.Time, won bool, err error) {
	if len(m.events) > 1 {
		times, err := s.insert(ctx, q, []*commit{m})
		at, won = times[m.id]
		return at, won, err
	}
	e := &m.events[0]
	sql := &s.sql.appendNext
	if m.after == 0 {
		sql = &s.sql.appendFirst
	}
	if m.plain() {
		err = q.QueryRow(ctx, sql[0], m.id.Slice(), m.id.Type(), string(m.id), int64(m.after), m.writer, e.SerializerID, e.Manifest, notNil(e.Data)).Scan(&at)
	} else {
		metaID, metaManifest, meta := metaColumns(e.Metadata)
		err = q.QueryRow(ctx, sql[1], m.id.Slice(), m.id.Type(), string(m.id), int64(m.after), m.writer, e.SerializerID, e.Manifest, notNil(e.Data),
			e.Adapter, m.tagsOf(0), metaID, metaManifest, meta).Scan(&at)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, false, nil
	}
	return at, err == nil, err
}

// insert writes the commits that win, in one statement, and returns the time of each of those by its id. The commits
// are of different entities, sorted by id. With an error there are no times: the rows of an answer come before the server's last
// word, and the server may still undo what they say.
func (s *Store) insert(ctx context.Context, q querier, commits []*commit) (map[annals.PersistenceID]time.Time, error) {
	sql, args := s.insertion(commits)
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	times := make(map[annals.PersistenceID]time.Time, len(commits))
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

func (s *Store) insertion(commits []*commit) (sql string, args []any) {
	total := 0
	for _, m := range commits {
		total += len(m.events)
	}
	a := newArrays(len(commits), total)
	for i, m := range commits {
		a.add(int64(i+1), m)
	}
	commit := []any{a.slice, a.entityType, a.id, a.after, a.writer}
	event := []any{a.adapter, a.serID, a.manifest, a.payload, a.tags, a.metaID, a.metaManifest, a.meta}
	if total == len(commits) {
		return s.sql.appendEach, slices.Concat(commit, event)
	}
	return s.sql.appendAll, slices.Concat(commit, []any{a.nr, a.seqNr}, event)
}

// arrays are the parameters of a statement for many commits: five per commit, the others per event.
type arrays struct {
	slice      []int32
	entityType []string
	id         []string
	after      []int64
	writer     []string

	nr, seqNr    []int64
	adapter      []string
	serID        []int32
	manifest     []string
	payload      [][]byte
	tags         []*string
	metaID       []*int32
	metaManifest []*string
	meta         [][]byte
}

func newArrays(commits, events int) *arrays {
	return &arrays{
		slice: make([]int32, 0, commits), entityType: make([]string, 0, commits), id: make([]string, 0, commits),
		after: make([]int64, 0, commits), writer: make([]string, 0, commits),
		nr: make([]int64, 0, events), seqNr: make([]int64, 0, events), adapter: make([]string, 0, events), serID: make([]int32, 0, events),
		manifest: make([]string, 0, events), payload: make([][]byte, 0, events), tags: make([]*string, 0, events),
		metaID: make([]*int32, 0, events), metaManifest: make([]*string, 0, events), meta: make([][]byte, 0, events),
	}
}

func (a *arrays) add(nr int64, m *commit) {
	a.slice = append(a.slice, int32(m.id.Slice()))
	a.entityType = append(a.entityType, m.id.Type())
	a.id = append(a.id, string(m.id))
	a.after = append(a.after, int64(m.after))
	a.writer = append(a.writer, m.writer)
	for i := range m.events {
		e := &m.events[i]
		metaID, metaManifest, meta := metaColumns(e.Metadata)
		a.nr = append(a.nr, nr)
		a.seqNr = append(a.seqNr, int64(m.after)+int64(i)+1)
		a.adapter = append(a.adapter, e.Adapter)
		a.serID = append(a.serID, e.SerializerID)
		a.manifest = append(a.manifest, e.Manifest)
		a.payload = append(a.payload, notNil(e.Data))
		a.tags = append(a.tags, m.tagsOf(i))
		a.metaID = append(a.metaID, metaID)
		a.metaManifest = append(a.metaManifest, metaManifest)
		a.meta = append(a.meta, meta)
	}
}

// metaColumns are the three columns of metadata: all NULL or none.
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

// arrayText is tags as the text of a text[]: one string per event, because arrays of arrays cannot be ragged.
func arrayText(tags []string) *string {
	if len(tags) == 0 {
		return nil
	}
	var b strings.Builder
	for i, tag := range tags {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteByte('"')
		for _, r := range []byte(tag) {
			if r == '"' || r == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(r)
		}
		b.WriteByte('"')
	}
	b.WriteByte('}')
	s := b.String()
	return &s
}
