package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// The tests of this file are defects of the plugins, each named as in the notes about them, with the opposite outcome. They
// run on the plugins' older tables: the wide key, no columns of ours.

func text(s string) annals.Payload {
	return annals.Payload{SerializerID: 20, Data: []byte(s)}
}

func cartPayload(title string, total int) annals.Payload {
	return annals.Payload{SerializerID: 31, Manifest: "annals.Cart", Data: fmt.Appendf(nil, `{"title":%q,"total":%d}`, title, total)}
}

// pluginStore is a store on tables as the plugin created them, with a custom table for Cart and its handler.
func pluginStore(t *testing.T, handler func(context.Context, pgx.Tx, annals.State) error) (*pgstore.Store, string) {
	t.Helper()
	url := postgres.Schema(t)
	run(t, url, pekkoTables+`
		CREATE TABLE durable_state_cart (LIKE durable_state INCLUDING ALL, title VARCHAR(255), total BIGINT DEFAULT 777);
		CREATE TABLE durable_state_t (LIKE durable_state INCLUDING ALL);
		CREATE TABLE durable_state_t2 (LIKE durable_state INCLUDING ALL);
		CREATE TABLE durable_state_strict (LIKE durable_state INCLUDING ALL, title VARCHAR(255) NOT NULL);
		CREATE TABLE cart_changes (n BIGSERIAL, persistence_id VARCHAR(255), kind VARCHAR(16), revision BIGINT, title VARCHAR(255),
			seen_offset VARCHAR(255), seen_timestamp BIGINT)`)
	return openAt(t, url, pgstore.Options{Tables: pgstore.PekkoTables(), StateTypes: map[string]annals.StateType[pgx.Tx]{
		"Cart":   {Table: "durable_state_cart", Columns: []string{"title", "total"}, Bind: bindCart, OnChange: handler},
		"T":      {Table: "durable_state_t"},
		"T2":     {Table: "durable_state_t2"},
		"Strict": {Table: "durable_state_strict", Columns: []string{"title"}, Bind: func(annals.State) (annals.Columns, error) { return annals.Columns{"title": nil}, nil }},
	}}), url
}

func put(t *testing.T, s annals.Store, id annals.PersistenceID, after annals.SeqNr, p annals.Payload) error {
	t.Helper()
	_, err := s.States().Put(t.Context(), annals.StateWrite{ID: id, After: after, Payload: p})
	return err
}

func mustPut(t *testing.T, s annals.Store, id annals.PersistenceID, after annals.SeqNr, p annals.Payload) {
	t.Helper()
	if err := put(t, s, id, after, p); err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("got %v, want %v", err, kind)
	}
}

func count(t *testing.T, url, sql string) (n int) {
	t.Helper()
	query(t, url, sql, nil, &n)
	return n
}

func TestConflictRunsNoHandler(t *testing.T) {
	t.Parallel()
	s, url := pluginStore(t, onCart)
	mustPut(t, s, "Cart|h-1", 0, cartPayload("one", 1))
	mustPut(t, s, "Cart|h-1", 1, cartPayload("two", 2))
	wantKind(t, put(t, s, "Cart|h-1", 1, cartPayload("stale", 1)), annals.ErrConflict)
	wantKind(t, put(t, s, "Cart|h-1", 4, cartPayload("too far", 1)), annals.ErrConflict)
	wantKind(t, put(t, s, "Cart|h-1", 0, cartPayload("again", 1)), annals.ErrConflict)
	wantKind(t, put(t, s, "Cart|h-2", 1, cartPayload("of nothing", 1)), annals.ErrConflict)
	_, err := s.States().Delete(t.Context(), annals.StateWrite{ID: "Cart|h-1", After: 6})
	wantKind(t, err, annals.ErrConflict)
	if n := count(t, url, "SELECT count(*) FROM cart_changes"); n != 2 {
		t.Errorf("the handler left %d rows, want 2", n)
	}
}

func TestHandlerFailureRollsBack(t *testing.T) {
	t.Parallel()
	s, url := pluginStore(t, onCart)
	err := put(t, s, "Cart|h-5", 0, cartPayload("fail", 1))
	if e := (*annals.Error)(nil); !errors.Is(err, errRefused) || !errors.As(err, &e) || e.Kind != nil {
		t.Errorf("got %v, want the handler's own error without a kind", err)
	}
	if n := count(t, url, "SELECT (SELECT count(*) FROM cart_changes) + (SELECT count(*) FROM durable_state_cart)"); n != 0 {
		t.Errorf("%d rows are left, want none", n)
	}
}

func TestWideKeyKeepsOneRow(t *testing.T) {
	t.Parallel()
	s, url := pluginStore(t, nil)
	mustPut(t, s, "Plain|w-1", 0, text("v1"))
	mustPut(t, s, "Plain|w-1", 1, text("v2"))
	wantKind(t, put(t, s, "Plain|w-1", 0, text("second life")), annals.ErrConflict)
	if n := count(t, url, "SELECT count(*) FROM durable_state"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
	// Two rows that the plugin left: the newest counts, everywhere.
	run(t, url, `INSERT INTO durable_state SELECT slice, entity_type, persistence_id, 1, db_timestamp, state_ser_id, state_ser_manifest, state_payload, tags FROM durable_state`)
	state, ok, err := s.States().Get(t.Context(), "Plain|w-1")
	if err != nil || !ok || state.Revision != 2 {
		t.Errorf("got revision %d (%v, %v), want 2", state.Revision, ok, err)
	}
	wantKind(t, put(t, s, "Plain|w-1", 1, text("of the older row")), annals.ErrConflict)
	mustPut(t, s, "Plain|w-1", 2, text("v3"))
	seen := 0
	for state, err := range s.Query().States(t.Context(), annals.Filter{}) {
		if seen++; err != nil || state.Revision != 3 {
			t.Errorf("states: revision %d, %v, want 3", state.Revision, err)
		}
	}
	if seen != 1 {
		t.Errorf("%d states, want 1", seen)
	}
}

func TestTypesAreNoPatterns(t *testing.T) {
	t.Parallel()
	s, _ := pluginStore(t, nil)
	for _, id := range []annals.PersistenceID{"La_b|1", "Laxb|1", "L%|1", "La_b|2"} {
		mustPut(t, s, id, 0, text("x"))
	}
	wantIDs(t, s, "La_b", "La_b|1", "La_b|2")
	wantIDs(t, s, "L%", "L%|1")
}

func TestListingLeavesNoTableOut(t *testing.T) {
	t.Parallel()
	s, _ := pluginStore(t, nil)
	all := []annals.PersistenceID{"T2|1", "T2|2", "T2|3", "T|1", "T|2", "T|3"}
	for _, id := range all {
		mustPut(t, s, id, 0, text("x"))
	}
	wantIDs(t, s, "", all...)
	var paged []annals.PersistenceID
	for after := annals.PersistenceID(""); ; {
		n := 0
		for id, err := range s.Query().IDs(t.Context(), "", after) {
			if err != nil {
				t.Fatal(err)
			}
			paged, after = append(paged, id), id
			if n++; n == 2 {
				break
			}
		}
		if n < 2 {
			break
		}
	}
	slices.Sort(paged)
	slices.Sort(all)
	if !slices.Equal(paged, all) {
		t.Errorf("pages of two: %q, want %q", paged, all)
	}
}

func wantIDs(t *testing.T, s annals.Store, entityType string, want ...annals.PersistenceID) {
	t.Helper()
	var got []annals.PersistenceID
	for id, err := range s.Query().IDs(t.Context(), entityType, "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, id)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("ids of type %q: %q, want %q", entityType, got, want)
	}
}

func TestRefusedColumnIsNoConflict(t *testing.T) {
	t.Parallel()
	s, _ := pluginStore(t, nil)
	wantKind(t, put(t, s, "Strict|2", 0, text("x")), annals.ErrConstraint)
	_, err := s.States().Delete(t.Context(), annals.StateWrite{ID: "Strict|1"})
	wantKind(t, err, annals.ErrConstraint)
}

func TestManyEventsOfOneTime(t *testing.T) {
	t.Parallel()
	s := open(t, pgstore.Options{MaxEvents: 10_000})
	c := annals.Commit{ID: "Same|long"}
	for i := range 2500 { // one commit: one time
		c.Events = append(c.Events, annals.NewEvent{Payload: text(fmt.Sprint(i + 1))})
	}
	if _, err := s.Journal().Append(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "Same|after", Events: c.Events[:1]}); err != nil {
		t.Fatal(err)
	}
	n, last := 0, annals.Offset{}
	for e, err := range s.Query().Events(t.Context(), annals.Filter{Type: "Same"}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; e.Offset().Compare(last) <= 0 {
			t.Fatalf("%v comes after %v", e.Offset(), last)
		}
		last = e.Offset()
	}
	if n != 2501 {
		t.Errorf("%d events, want 2501", n)
	}
}

func TestDeletesLeaveMarkers(t *testing.T) {
	t.Parallel()
	for _, plugin := range []bool{false, true} {
		t.Run(fmt.Sprint("plugin deletes ", plugin), func(t *testing.T) {
			t.Parallel()
			url := postgres.Schema(t)
			s := openAt(t, url, pgstore.Options{CreateTables: true, PluginDeletes: plugin})
			deleteTo := func(id annals.PersistenceID, to annals.SeqNr, want, pluginWant string) {
				t.Helper()
				if err := s.Journal().DeleteTo(t.Context(), id, to); err != nil {
					t.Error(err)
				}
				if plugin {
					want = pluginWant
				}
				if got := journalRows(t, url, id); got != want {
					t.Errorf("a delete to %d leaves %q, want %q", to, got, want)
				}
			}
			for range 2 { // an id without events: nothing, and nothing again
				deleteTo("T|none", annals.MaxSeqNr, "", "")
			}
			for i := range annals.SeqNr(4) {
				appendOne(t, s, "T|1", i)
			}
			for range 2 {
				deleteTo("T|1", 3, "1m 2m 3m 4", "3m 4")
			}
			for range 2 {
				deleteTo("T|1", 1, "1m 2m 3m 4", "1m 3m 4")
			}
			run(t, url, "UPDATE event_journal SET db_timestamp = db_timestamp - interval '16 minutes'")
			deleteTo("T|1", 3, "3m 4", "3m 4")
			deleteTo("T|1", 2, "3m 4", "2m 3m 4")
			deleteTo("T|1", 9, "4m", "4m") // beyond the last: held to it
			appendOne(t, s, "T|1", 4)
			if last, err := s.Journal().LastSeqNr(t.Context(), "T|1"); last != 5 || err != nil {
				t.Errorf("last number %d (%v), want 5", last, err)
			}
		})
	}
}

// journalRows returns the numbers of an entity's rows; those of deleted rows have an m.
func journalRows(t *testing.T, url string, id annals.PersistenceID) (rows string) {
	t.Helper()
	query(t, url, `SELECT coalesce(string_agg(seq_nr || CASE WHEN deleted THEN 'm' ELSE '' END, ' ' ORDER BY seq_nr), '')
		FROM event_journal WHERE persistence_id = $1`, []any{string(id)}, &rows)
	return rows
}

// A marker below an earlier delete changes nothing for readers, nor for the retry of a write that is partly deleted.
func TestReadsAfterSeveralMarkers(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true, PluginDeletes: true})
	commits := make([]annals.Commit, 5)
	for i := range commits {
		commits[i] = annals.Commit{ID: "T|1", After: annals.SeqNr(500 * i), WriteID: annals.NewWriteID()}
		for range 500 {
			commits[i].Events = append(commits[i].Events, annals.NewEvent{Payload: text("x")})
		}
		if _, err := s.Journal().Append(t.Context(), commits[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, to := range []annals.SeqNr{2498, 2300, 2490} { // the first delete takes two statements
		if err := s.Journal().DeleteTo(t.Context(), "T|1", to); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := journalRows(t, url, "T|1"), "2490m 2498m 2499 2500"; got != want {
		t.Errorf("rows %q, want %q", got, want)
	}
	r, err := s.Journal().Append(t.Context(), commits[4])
	if err != nil || !r.Repeated || r.SeqNr != 2500 {
		t.Errorf("the retry of the last write: %+v, %v", r, err)
	}
	var read, recovered []annals.SeqNr
	for e, err := range s.Journal().Replay(t.Context(), "T|1", 1, annals.MaxSeqNr) {
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, e.SeqNr)
	}
	last, err := ability.Recover(t.Context(), s, "T|1", nil, func(e annals.Event) error {
		recovered = append(recovered, e.SeqNr)
		return nil
	})
	if want := []annals.SeqNr{2499, 2500}; !slices.Equal(read, want) || !slices.Equal(recovered, want) || last != 2500 || err != nil {
		t.Errorf("read %v, recovered %v, last number %d (%v); want %v", read, recovered, last, err, want)
	}
	appendOne(t, s, "T|1", 2500)
}

// appendOne appends the event with the number after+1.
func appendOne(t *testing.T, s annals.Store, id annals.PersistenceID, after annals.SeqNr) annals.Receipt {
	t.Helper()
	r, err := s.Journal().Append(t.Context(), annals.Commit{ID: id, After: after, Events: []annals.NewEvent{{Payload: text(fmt.Sprint(after + 1))}}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTimesRiseAfterDeletes(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true})
	appendOne(t, s, "T|1", 0)
	run(t, url, "UPDATE event_journal SET db_timestamp = '2040-01-01T00:00:00.000010Z'")
	if err := s.Journal().DeleteTo(t.Context(), "T|1", annals.MaxSeqNr); err != nil {
		t.Fatal(err)
	}
	want := time.Date(2040, 1, 1, 0, 0, 0, 11_000, time.UTC)
	if r := appendOne(t, s, "T|1", 1); !r.Time.Equal(want) {
		t.Errorf("the event after a marker in the future has the time %v, want %v", r.Time, want)
	}
}
