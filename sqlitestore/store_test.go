package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/sqlitestore"
)

func open(tb testing.TB, o sqlitestore.Options) *sqlitestore.Store {
	tb.Helper()
	return openAt(tb, filepath.Join(tb.TempDir(), "annals.db"), o)
}

func openAt(tb testing.TB, path string, o sqlitestore.Options) *sqlitestore.Store {
	tb.Helper()
	s, err := sqlitestore.Open(context.Background(), path, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// raw is a connection of another program to the same file.
func raw(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		tb.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	tb.Cleanup(func() { db.Close() })
	return db
}

// executing is an Options.Init.
func executing(texts ...string) func(ctx context.Context, tx *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, strings.Join(texts, ";"))
		return err
	}
}

func mustExec(tb testing.TB, db interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, text string, args ...any,
) {
	tb.Helper()
	if _, err := db.ExecContext(context.Background(), text, args...); err != nil {
		tb.Fatal(err)
	}
}

func count(tb testing.TB, db *sql.DB, text string, args ...any) (n int) {
	tb.Helper()
	if err := db.QueryRowContext(context.Background(), text, args...).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func payload(text string) annals.Payload {
	return annals.Payload{SerializerID: 1, Manifest: "text.v1", Data: []byte(text)}
}

// commit holds events whose payloads are their numbers.
func commit(id annals.PersistenceID, after annals.SeqNr, n int) annals.Commit {
	c := annals.Commit{ID: id, After: after, WriteID: annals.NewWriteID()}
	for i := range n {
		c.Events = append(c.Events, annals.NewEvent{Payload: payload(fmt.Sprint(int(after) + i + 1))})
	}
	return c
}

func mustAppend(tb testing.TB, s annals.Store, c annals.Commit) annals.Receipt {
	tb.Helper()
	r, err := s.Journal().Append(context.Background(), c)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// numbers replays everything and checks the payloads of commit.
func numbers(tb testing.TB, s annals.Store, id annals.PersistenceID) (got []annals.SeqNr) {
	tb.Helper()
	for e, err := range s.Journal().Replay(context.Background(), id, 1, annals.MaxSeqNr) {
		if err != nil {
			tb.Fatal(err)
		}
		if string(e.Data) != fmt.Sprint(e.SeqNr) {
			tb.Fatalf("event %d of %s holds %q", e.SeqNr, id, e.Data)
		}
		got = append(got, e.SeqNr)
	}
	return got
}

func wantKind(tb testing.TB, err, kind error) {
	tb.Helper()
	e := (*annals.Error)(nil)
	if !errors.Is(err, kind) || !errors.As(err, &e) || e.Op == "" {
		tb.Errorf("got %v, want an *annals.Error with an Op: %v", err, kind)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(dir, "newer.db")
	db := raw(t, newer)
	mustExec(t, db, `CREATE TABLE annals (version INTEGER NOT NULL, clock INTEGER NOT NULL)`)
	mustExec(t, db, `INSERT INTO annals VALUES (7, 0)`)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	made := func(name, text string) string {
		path := filepath.Join(dir, name)
		db := raw(t, path)
		mustExec(t, db, text)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name, path string
		kind       error
		says       string
	}{
		{"empty path", "", annals.ErrInvalid, "memstore"},
		{"memory", ":memory:", annals.ErrInvalid, "memstore"},
		{"not a database", text, annals.ErrInvalid, "not a database"},
		{"newer schema", newer, annals.ErrUnsupported, "version 7, this release knows 5"},
		{"folder", dir, annals.ErrInvalid, "names a folder"},
		{"missing folder", filepath.Join(dir, "no", "annals.db"), annals.ErrInvalid, filepath.Join(dir, "no") + ": no such file or directory"},
		{"file for a folder", filepath.Join(text, "annals.db"), annals.ErrInvalid, "not a directory"},
		{"another program's table", made("theirs.db", `CREATE TABLE Snapshot (id INTEGER)`), annals.ErrInvalid, `a table "snapshot" that is not`},
		{"another program's table annals", made("annals.db", `CREATE TABLE annals (year INTEGER)`), annals.ErrInvalid, "no such column: version"},
		{"no version", made("empty.db", `CREATE TABLE annals (version, clock)`), annals.ErrCorrupt, "the table annals has no row"},
		{"odd version", made("odd.db", `CREATE TABLE annals (version, clock); INSERT INTO annals VALUES ('one', 0)`), annals.ErrCorrupt, "column version holds a text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before, _ := os.ReadFile(c.path)
			s, err := sqlitestore.Open(t.Context(), c.path, sqlitestore.Options{})
			if err == nil {
				s.Close()
			}
			wantKind(t, err, c.kind)
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v does not say %q", err, c.says)
			}
			if after, _ := os.ReadFile(c.path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "annals.db")
	s := openAt(t, path, sqlitestore.Options{})
	mustAppend(t, s, commit("T|1", 0, 3))
	watched, err := s.Unwrap().(ability.Watcher).Watch(ctx, annals.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range watched { // it ends: watchers are told
	}
	_, err = s.Journal().Append(ctx, commit("T|1", 3, 1))
	wantKind(t, err, annals.ErrClosed)
	_, err = s.Journal().LastSeqNr(ctx, "T|1")
	wantKind(t, err, annals.ErrClosed)
	_, _, err = s.Snapshots().Latest(ctx, "T|1", annals.SnapshotCriteria{})
	wantKind(t, err, annals.ErrClosed)
	_, err = ability.Recover(ctx, s, "T|1", nil, nil)
	wantKind(t, err, annals.ErrClosed)
	wantKind(t, s.InTx(ctx, nil), annals.ErrClosed)
	_, err = s.Unwrap().(ability.Watcher).Watch(ctx, annals.Filter{})
	wantKind(t, err, annals.ErrClosed)
	for _, err := range s.Query().Events(ctx, annals.Filter{}) {
		wantKind(t, err, annals.ErrClosed)
	}
	if err := s.Close(); err != nil {
		t.Error("closing twice:", err)
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Error("the log was not folded into the file:", err)
	}
	if got := numbers(t, openAt(t, path, sqlitestore.Options{}), "T|1"); len(got) != 3 {
		t.Error("after opening again there are", got)
	}
}

// Close waits until accepted writes have been executed.
func TestCloseWaitsForWrites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	s := openAt(t, path, sqlitestore.Options{})
	other := raw(t, path)
	tx, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	appended, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.Journal().Append(context.WithoutCancel(t.Context()), commit("T|1", 0, 1))
		appended <- err
	}()
	sqlitestore.AwaitQueue(s, 1)
	go func() { closed <- s.Close() }()
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-appended; err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestDBIsReadOnly(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{})
	mustAppend(t, s, commit("T|1", 0, 2))
	if n := count(t, s.DB(), `SELECT count(*) FROM event_journal`); n != 2 {
		t.Errorf("%d rows", n)
	}
	if _, err := s.DB().ExecContext(t.Context(), `DELETE FROM event_journal`); err == nil {
		t.Error("the pool for reading deletes")
	}
}

// Times rise with every commit, also when the clock stands still or is set back, or when the clock of another process was ahead.
func TestTimesRise(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	s, other := openAt(t, path, sqlitestore.Options{}), openAt(t, path, sqlitestore.Options{})
	first := mustAppend(t, s, commit("T|1", 0, 2)).Time
	mustExec(t, raw(t, path), `UPDATE annals SET clock = ?`, first.Add(time.Hour).UnixMicro())
	ahead := mustAppend(t, other, commit("T|2", 0, 1)).Time
	if ahead.Sub(first).Hours() < 1 {
		t.Fatalf("%v is not an hour after %v", ahead, first)
	}
	if err := other.Journal().DeleteTo(t.Context(), "T|2", annals.MaxSeqNr); err != nil {
		t.Fatal(err)
	}
	last := ahead
	for i := range 10 {
		r := mustAppend(t, s, commit("T|1", annals.SeqNr(2+i), 1))
		if !r.Time.After(last) {
			t.Fatalf("%v is not after %v", r.Time, last)
		}
		last = r.Time
	}
	put, err := other.States().Put(t.Context(), annals.StateWrite{ID: "S|1", Payload: payload("x")})
	if err != nil || !put.Time.After(last) {
		t.Errorf("the state has %v, %v; the event before it %v", put.Time, err, last)
	}
}
