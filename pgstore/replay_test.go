package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// A replay makes few requests: the first page has 200 events, and each further one as many as fit into 8 MiB by the size of those before. Before the third
// page one request reads the last number.
// The store keeps the memory of a long page.
func TestReplayRequests(t *testing.T) {
	t.Parallel()
	u := postgres.Schema(t)
	r := &recorder{}
	s := openAt(t, u, pgstore.Options{CreateTables: true, Observer: r})
	for id, c := range map[annals.PersistenceID]struct{ events, bytes, requests int }{
		"T|one page":     {events: 199, bytes: 200, requests: 1},
		"T|two pages":    {events: 20_000, bytes: 200, requests: 2},
		"T|large events": {events: 300, bytes: 100_000, requests: 3 + 1}, // 200, 83, 17
	} {
		t.Run(string(id), func(t *testing.T) {
			storeEvents(t, u, id, c.events, fmt.Sprintf("repeat('x', %d)", c.bytes))
			n := 0
			for e, err := range s.Journal().Replay(t.Context(), id, 1, annals.MaxSeqNr) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; e.SeqNr != annals.SeqNr(n) || len(e.Data) != c.bytes {
					t.Fatalf("event %d has number %d and %d bytes", n, e.SeqNr, len(e.Data))
				}
			}
			if result := r.ended[len(r.ended)-1]; n != c.events || result.Requests != c.requests {
				t.Errorf("%d events by %d requests, want %d by %d", n, result.Requests, c.events, c.requests)
			}
		})
	}
}

// What is read at once is bounded in bytes, also where the first page or the statement of a recovery finds large events: 32 of 1 MiB, then as
// many as fit into 8 MiB.
func TestPagesOfLargePayloads(t *testing.T) {
	t.Parallel()
	const events, each = 70, 1 << 20
	u := postgres.Schema(t)
	r := &recorder{}
	openAt(t, u, pgstore.Options{CreateTables: true})
	run(t, u, `ALTER TABLE durable_state ADD found TEXT`)
	s := openAt(t, with(t, u, "pool_max_conns=1"), pgstore.Options{Observer: r, StateTypes: map[string]annals.StateType[pgx.Tx]{
		"T": {Columns: []string{"found"}, Bind: func(annals.State) (annals.Columns, error) { return nil, nil }}}})
	storeEvents(t, u, "T|1", events, fmt.Sprintf("repeat('x', %d)", each))
	run(t, u, `INSERT INTO durable_state (slice, entity_type, persistence_id, revision, db_timestamp, state_ser_id, state_ser_manifest, state_payload, tags)
		SELECT slice, entity_type, 'T|' || seq_nr, 1, now(), 4, '', event_payload, NULL FROM event_journal`)
	run(t, u, `INSERT INTO snapshot (slice, entity_type, persistence_id, seq_nr, write_timestamp, ser_id, ser_manifest, snapshot)
		SELECT slice, entity_type, 'S|' || seq_nr, 1, 0, 4, '', event_payload FROM event_journal`)
	n := annals.SeqNr(0)
	next := func(e annals.Event) error {
		if n++; e.SeqNr != n || len(e.Data) != each {
			return fmt.Errorf("event %d has number %d and %d bytes", n, e.SeqNr, len(e.Data))
		}
		return nil
	}
	replay := func(s annals.Store, body func() error) (err error) {
		for e, failed := range s.Journal().Replay(t.Context(), "T|1", 1, annals.MaxSeqNr) {
			if err = errors.Join(failed, next(e)); err == nil {
				err = body()
			}
			if err != nil {
				break
			}
		}
		return err
	}
	for name, c := range map[string]struct {
		op       string
		requests int
		read     func() error
	}{
		"recover": {"recover", 1 + 6, func() error {
			_, err := ability.Recover(t.Context(), s, "T|1", func(annals.Snapshot) error { return nil }, next)
			return err
		}},
		// The body waits for the only connection: after the first part the rest is received, as far as it is kept.
		"replay, and the connection is wanted": {"replay", 1 + 1, func() error {
			return replay(s, func() error { _, err := s.Journal().LastSeqNr(t.Context(), "T|1"); return err })
		}},
		// One request reads the last number before the third page, and one for the guard.
		"replay in a transaction": {"replay", 1 + 6 + 2, func() error {
			return s.InTx(t.Context(), func(_ context.Context, _ pgx.Tx, in annals.Store) error {
				return replay(in, func() error { return nil })
			})
		}},
		"query events": {"query events", 5, func() (err error) { // 32, 8, 16, 14, 0
			for e, failed := range s.Query().Events(t.Context(), annals.Filter{}) {
				err = errors.Join(err, failed, next(e))
			}
			return err
		}},
		"query states": {"query states", 5, func() (err error) {
			for _, failed := range s.Query().States(t.Context(), annals.Filter{}) {
				err = errors.Join(err, failed)
				n++
			}
			return err
		}},
		"find states": {"find states", 4, func() (err error) { // 32, 8, 16, 14
			for _, failed := range s.Unwrap().(ability.StateFinder).FindStates(t.Context(), "T", "found", nil) {
				err = errors.Join(err, failed)
				n++
			}
			return err
		}},
		"query snapshots": {"query snapshots", 5, func() (err error) {
			for _, failed := range s.Query().Snapshots(t.Context(), annals.Filter{}) {
				err = errors.Join(err, failed)
				n++
			}
			return err
		}},
	} {
		n = 0
		if err := c.read(); err != nil || n != events {
			t.Errorf("%s: %d events, %v", name, n, err)
		}
		i := len(r.calls) - 1
		for r.calls[i].Op != c.op {
			i--
		}
		if got := r.ended[i].Requests; got != c.requests {
			t.Errorf("%s: %d requests, want %d", name, got, c.requests)
		}
	}
}

// A recovery that begins again, because another owner has deleted events, reads on from its second beginning and not from a page of the first one.
func TestRecoverAgainBehindPages(t *testing.T) {
	t.Parallel()
	u := postgres.Schema(t)
	s := openAt(t, u, pgstore.Options{CreateTables: true, Gaps: true})
	storeEvents(t, u, "T|1", 8000, "repeat('x', CASE WHEN n > 1000 THEN 1 ELSE 2000 END)")
	n := annals.SeqNr(0)
	last, err := ability.Recover(t.Context(), s, "T|1", func(s annals.Snapshot) error { n = s.SeqNr; return nil }, func(e annals.Event) error {
		if n++; e.SeqNr != n {
			return fmt.Errorf("event %d has number %d", n, e.SeqNr)
		}
		if n != 1000 {
			return nil
		}
		return errors.Join(s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "T|1", SeqNr: 1500, Payload: text("x")}), s.Journal().DeleteTo(t.Context(), "T|1", 1500))
	})
	if last != 8000 || n != 8000 || err != nil {
		t.Errorf("last number %d, last event %d, %v", last, n, err)
	}
}

// storeEvents stores events of an entity of the type T. payload is an expression for that of event n. Each event has a writer of its own.
func storeEvents(t *testing.T, url string, id annals.PersistenceID, events int, payload string) {
	t.Helper()
	run(t, url, fmt.Sprintf(`INSERT INTO event_journal (slice, entity_type, persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, writer, adapter_manifest)
		SELECT %d, 'T', '%s', n, now(), 4, '', convert_to(%s, 'UTF8'), gen_random_uuid(), '' FROM generate_series(1, %d) n`, id.Slice(), id, payload, events))
}

// A loop that writes an event for each one that it reads comes to an end.
func TestReplayEnds(t *testing.T) {
	t.Parallel()
	u := postgres.Schema(t)
	s := openAt(t, u, pgstore.Options{CreateTables: true})
	const events, large = 300, 100_000
	storeEvents(t, u, "T|1", events, fmt.Sprintf("repeat('x', %d)", large))
	read, p := 0, annals.Payload{SerializerID: 4, Data: make([]byte, large)}
	for e, err := range s.Journal().Replay(t.Context(), "T|1", 1, annals.MaxSeqNr) {
		if err != nil {
			t.Fatal(err)
		}
		if read++; read > 2*events {
			t.Fatalf("the replay has read event %d", e.SeqNr)
		}
		c := annals.Commit{ID: "T|1", After: events + annals.SeqNr(read) - 1, Events: []annals.NewEvent{{Payload: p}}, WriteID: annals.NewWriteID()}
		if _, err := s.Journal().Append(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}
