package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
)

// commit is an annals.Commit on its way, as the rows it becomes.
type commit struct {
	id       annals.PersistenceID
	after    annals.SeqNr
	writer   string
	events   []annals.NewEvent
	tags     []*string // of each event, as an array's text; nil is NULL. Only of a commit that is kept
	snapshot *annals.Snapshot
	size     int // bytes of payload

	since     time.Time    // when the first try went out
	tries     int          // that came to nothing
	deadlocks int          // tries that the server undid for their company
	maybe     bool         // a try went out whose answer never came
	done      chan outcome // buffered: whoever waits may have left
}

type outcome struct {
	receipt annals.Receipt
	err     error
}

// newCommit is c for as long as its caller waits. The zero WriteID becomes a random one, for the store's own retries.
func newCommit(c annals.Commit) *commit {
	w := c.WriteID
	if w.IsZero() {
		w = annals.NewWriteID()
	}
	m := &commit{id: c.ID, after: c.After, writer: w.String(), events: c.Events, snapshot: c.Snapshot}
	for i := range m.events {
		e := &m.events[i]
		m.size += len(e.Data) + len(e.Metadata.Data)
	}
	if c.Snapshot != nil {
		m.size += len(c.Snapshot.Data)
	}
	return m
}

// keep makes m one that others write while its caller may leave: nothing that the caller may change is left in it but bytes.
func (m *commit) keep() {
	m.events = slices.Clone(m.events)
	m.tags = make([]*string, len(m.events))
	for i := range m.events {
		m.tags[i] = arrayText(m.events[i].Tags)
	}
	if m.snapshot != nil {
		s := *m.snapshot
		s.Tags = slices.Clone(s.Tags)
		m.snapshot = &s
	}
	m.done = make(chan outcome, 1)
}

// tagsOf are the tags of event i as an array's text.
func (m *commit) tagsOf(i int) *string {
	if m.tags != nil {
		return m.tags[i]
	}
	return arrayText(m.events[i].Tags)
}

// validate says what the columns do not hold and annals.Commit.Validate does not know of.
func (s *Store) validate(c annals.Commit) error {
	l := limits
	l.MaxIDBytes = 0 // the column counts characters
	if err := c.Validate(l); err != nil {
		return err
	}
	if err := fits("append", c.ID); err != nil {
		return err
	}
	for i := range c.Events {
		e := &c.Events[i]
		if err := s.storable(s.journal, "event_payload", e.Payload, e.Metadata, e.Adapter); err != nil {
			return invalid("append", c.ID, fmt.Errorf("event %d: %w", i+1, err))
		}
	}
	if c.Snapshot != nil {
		if err := s.storable(s.snapshot, "snapshot", c.Snapshot.Payload, c.Snapshot.Metadata, ""); err != nil {
			return invalid("append", c.ID, fmt.Errorf("snapshot: %w", err))
		}
	}
	return nil
}

// last is the number of the commit's last event.
func (m *commit) last() annals.SeqNr { return m.after + annals.SeqNr(len(m.events)) }

func (m *commit) won(at time.Time) outcome {
	return outcome{receipt: annals.Receipt{SeqNr: m.last(), Time: at.UTC()}}
}

// writeCommit writes m alone, or says who came before.
func (s *Store) writeCommit(ctx context.Context, q querier, m *commit) (outcome, error) {
	var at time.Time
	var ok bool
	write := func(q querier) (err error) {
		if at, ok, err = s.insertOne(ctx, q, m); !ok || err != nil || m.snapshot == nil {
			return err
		}
		return s.save(ctx, q, *m.snapshot)
	}
	var err error
	if _, inTx := q.(pgx.Tx); inTx || m.snapshot != nil {
		err = atomically(ctx, q, func(tx pgx.Tx) error { return write(tx) }) // in a transaction: a savepoint
	} else {
		err = write(q)
	}
	switch {
	case err == nil && ok:
		return m.won(at), nil
	case err == nil, unique(err): // a foreign row was in the way of a later event of m
		return s.lookUp(ctx, q, m)
	}
	return outcome{}, err
}

// insertOne writes m alone. It returns false when m.after is not the last number; then, or in a rare race, as an error that
// unique knows.
func (s *Store) insertOne(ctx context.Context, q querier, m *commit) (at time.Time, ok bool, err error) {
	if len(m.events) > 1 {
		won, err := s.insert(ctx, q, []*commit{m})
		at, ok = won[m.id]
		return at, ok, err
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
// are of different entities, sorted by id.
func (s *Store) insert(ctx context.Context, q querier, commits []*commit) (map[annals.PersistenceID]time.Time, error) {
	sql, args := s.insertion(commits)
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	won := make(map[annals.PersistenceID]time.Time, len(commits))
	var id annals.PersistenceID
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{(*string)(&id), &at}, func() error {
		won[id] = at
		return nil
	})
	return won, err
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

// lookUp answers a commit that did not win: it may have been written by an earlier try.
func (s *Store) lookUp(ctx context.Context, q querier, m *commit) (outcome, error) {
	var last, until int64
	var at *time.Time
	if err := q.QueryRow(ctx, s.sql.lookUp, string(m.id), int64(m.after), m.writer).Scan(&last, &at, &until); err != nil {
		return outcome{}, err
	}
	if at != nil {
		return outcome{receipt: annals.Receipt{SeqNr: annals.SeqNr(until), Time: at.UTC(), Repeated: true}}, nil
	}
	return outcome{err: conflict("append", m.id, m.after, annals.SeqNr(last))}, nil
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

// maxChars is what the plugins' text columns hold.
const maxChars = 255

// fits checks that an id fits into its column.
func fits(op string, id annals.PersistenceID) error {
	if n := utf8.RuneCountInString(string(id)); n > maxChars {
		return invalid(op, id[:limits.MaxIDBytes], fmt.Errorf("the persistence id has %d characters, the store takes %d", n, maxChars))
	}
	return nil
}

// storable says what t's columns would refuse, before anything is sent.
func (s *Store) storable(t *table, column string, p, metadata annals.Payload, adapter string) error {
	switch {
	case utf8.RuneCountInString(p.Manifest) > maxChars || utf8.RuneCountInString(metadata.Manifest) > maxChars:
		return fmt.Errorf("a manifest has more than %d characters", maxChars)
	case utf8.RuneCountInString(adapter) > maxChars || !utf8.ValidString(adapter) || strings.ContainsRune(adapter, 0):
		return fmt.Errorf("the adapter's manifest is not valid UTF-8 without U+0000 of at most %d characters", maxChars)
	case t.json(column) && (!json.Valid(p.Data) || !utf8.Valid(p.Data)):
		return errors.New("the payload is not JSON, but its column is")
	}
	return nil
}
