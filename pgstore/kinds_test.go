package pgstore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// asRole is a new role without rights but to use the schema of at, and the URL of that schema for it.
func asRole(t *testing.T, at string) (role, as string) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	role = "annals_" + strings.ToLower(rand.Text()[:12])
	run(t, at, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'x'; GRANT USAGE ON SCHEMA %s TO %s", role, u.Query().Get("search_path"), role))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		conn, err := pgx.Connect(ctx, at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, fmt.Sprintf("DROP OWNED BY %s; DROP ROLE %s", role, role)); err != nil {
			t.Error(err)
		}
	})
	u.User = url.UserPassword(role, "x")
	return role, u.String()
}

// An error that only an operator can correct is ErrInvalid, from Open or from the first call that meets it, and is not tried again.
func TestWhatTheOperatorHasToMend(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	s := openAt(t, at, pgstore.Options{CreateTables: true})
	appendOne(t, s, "T|1", 0)
	role, as := asRole(t, at)

	for name, change := range map[string]func(u *url.URL){
		"no such database": func(u *url.URL) { u.Path = "/there_is_none" },
		"no such role":     func(u *url.URL) { u.User = url.UserPassword("there_is_none", "x") },
	} {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		change(u)
		_, err = pgstore.Open(t.Context(), pool(t, u.String()), pgstore.Options{})
		if wantKind(t, err, annals.ErrInvalid); annals.SafeToRetry(err) {
			t.Errorf("%s: to be tried again: %v", name, err)
		}
	}
	_, err := pgstore.Open(t.Context(), pool(t, as), pgstore.Options{})
	wantKind(t, err, annals.ErrInvalid)
	run(t, at, "GRANT SELECT, INSERT, UPDATE, DELETE ON event_journal, snapshot, durable_state, akka_projection_timestamp_offset_store, annals_projection_epoch TO "+role)
	reader := openAt(t, as, pgstore.Options{})
	run(t, at, "REVOKE INSERT ON event_journal, durable_state FROM "+role)
	if n := len(all(t, reader, "T|1")); n != 1 {
		t.Errorf("a role that may read reads %d events, want 1", n)
	}
	_, err = reader.Journal().Append(t.Context(), annals.Commit{ID: "T|1", After: 1, Events: []annals.NewEvent{{Payload: text("x")}}})
	wantKind(t, err, annals.ErrInvalid)
	wantKind(t, put(t, reader, "T|1", 0, text("x")), annals.ErrInvalid)
	run(t, at, "REVOKE SELECT ON event_journal FROM "+role)
	_, err = collected(reader.Journal().Replay(t.Context(), "T|1", 1, annals.MaxSeqNr))
	wantKind(t, err, annals.ErrInvalid)

	run(t, at, "ALTER TABLE snapshot RENAME TO elsewhere")
	wantKind(t, s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "T|1", SeqNr: 1, Payload: text("x")}), annals.ErrInvalid)
}

// A delete of snapshots whose answer is lost may have been done.
func TestLostAnswerOfASnapshotDelete(t *testing.T) {
	t.Parallel()
	p := newProxy(t, postgres.Schema(t))
	s := openAt(t, p.URL, pgstore.Options{CreateTables: true})
	lost := lose(p, postgres.Write)
	err := s.Snapshots().Delete(t.Context(), "T|1", annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
	<-lost
	wantKind(t, err, annals.ErrUnknown)
}

// After an event, a marker or a state with an infinite time, writes continue at once with the time of the server.
func TestAppendsAfterAnInfiniteTime(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	s := openAt(t, at, pgstore.Options{CreateTables: true})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for name, events := range map[annals.PersistenceID][]annals.NewEvent{
		"Inf|plain": {{Payload: text("x")}}, "Inf|tagged": {{Payload: text("x"), Tags: []string{"a"}}}, "Inf|many": {{Payload: text("x")}, {Payload: text("y")}},
	} {
		appendOne(t, s, name, 0)
		run(t, at, "UPDATE event_journal SET db_timestamp = 'infinity' WHERE persistence_id = '"+string(name)+"'")
		r, err := s.Journal().Append(ctx, annals.Commit{ID: name, After: 1, Events: events})
		if err != nil || time.Since(r.Time).Abs() > time.Hour {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	mustPut(t, s, "Inf|state", 0, text("x"))
	run(t, at, "UPDATE durable_state SET db_timestamp = 'infinity'")
	mustPut(t, s, "Inf|state", 1, text("y"))
	appendOne(t, s, "Inf|deleted", 0)
	run(t, at, "UPDATE event_journal SET db_timestamp = 'infinity' WHERE persistence_id = 'Inf|deleted'")
	if err := s.Journal().DeleteTo(t.Context(), "Inf|deleted", annals.MaxSeqNr); err != nil {
		t.Error(err)
	}
	if n := count(t, at, "SELECT count(*) FROM event_journal WHERE db_timestamp = 'infinity' AND deleted"); n != 0 {
		t.Errorf("%d markers at the end of all times", n)
	}
}
