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

// shape returns a line for each column and index in the file.
func shape(t *testing.T, path string) (lines []string) {
	t.Helper()
	const text = `SELECT t.name || '.' || c.name || ' ' || c.type || ' ' || c."notnull" || ' ' || c.pk || ' ' || ifnull(c.dflt_value, '')
			FROM sqlite_schema AS t, pragma_table_info(t.name) AS c WHERE t.type = 'table'
		UNION SELECT t.name || ' on ' || t.tbl_name || group_concat(' ' || ifnull(c.name, '?'))
			FROM sqlite_schema AS t, pragma_index_info(t.name) AS c WHERE t.type = 'index' GROUP BY t.name
		ORDER BY 1`
	rows, err := raw(t, path).QueryContext(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		line := ""
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

// Schema creates the same tables as Open, can be run twice, and is enough for a store that creates no tables.
func TestSchema(t *testing.T) {
	t.Parallel()
	opened := filepath.Join(t.TempDir(), "annals.db")
	if err := openAt(t, opened, sqlitestore.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "annals.db")
	for range 2 {
		mustExec(t, raw(t, path), script(t, sqlitestore.Options{}))
	}
	if got, want := strings.Join(shape(t, path), "\n"), strings.Join(shape(t, opened), "\n"); got != want {
		t.Errorf("Schema makes\n%s\nOpen makes\n%s", got, want)
	}
	s := openAt(t, path, sqlitestore.Options{CreateTables: new(false)})
	mustAppend(t, s, commit("T|1", 0, 2))
}

// Schema includes the tables and columns of StateTypes, so that Init is not needed.
func TestSchemaOfStateTypes(t *testing.T) {
	t.Parallel()
	o := posts(nil)
	path := filepath.Join(t.TempDir(), "annals.db")
	mustExec(t, raw(t, path), script(t, o))
	o.CreateTables = new(false)
	o.Init = func(context.Context, *sql.Tx) error { return errOwn }
	s := openAt(t, path, o)
	if _, err := put(s, "Post|1", 0, "title:body"); err != nil {
		t.Fatal(err)
	}
	for state, err := range s.Unwrap().(ability.StateFinder).FindStates(t.Context(), "Post", "title", "title") {
		if err != nil || state.ID != "Post|1" {
			t.Errorf("found %+v, %v", state, err)
		}
	}
	if n := count(t, s.DB(), `SELECT count(*) FROM posts WHERE body = 'body'`); n != 1 {
		t.Errorf("%d rows have the body", n)
	}
}

// Where CreateTables is false, Open changes nothing, and its error says what is missing. Migrate creates it.
func TestCreateNoTables(t *testing.T) {
	t.Parallel()
	made := func(o sqlitestore.Options, text string) string {
		path := filepath.Join(t.TempDir(), "annals.db")
		migrate(t, path, o)
		db := raw(t, path)
		mustExec(t, db, text)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const dropped = `ALTER TABLE posts DROP COLUMN meta_payload`
	empty := filepath.Join(t.TempDir(), "empty.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, says string }{
		{"no file", filepath.Join(t.TempDir(), "annals.db"), "no such file"},
		{"empty file", empty, "no write-ahead log"},
		{"no tables", made(sqlitestore.Options{}, `DROP TABLE annals; DROP TABLE event_journal; DROP TABLE snapshot;
			DROP TABLE durable_state; DROP TABLE offsets; DROP TABLE offset_epochs`), "does not have the store's tables"},
		{"no log", made(posts(nil), `PRAGMA journal_mode = DELETE`), "no write-ahead log"},
		{"no state table", made(sqlitestore.Options{}, ``), `there is no table "posts"`},
		{"no column", made(posts(nil), dropped), `has no column "meta_payload"`},
		{"no index", made(posts(nil), `DROP INDEX event_journal_time_idx`), `no index "event_journal_time_idx"`},
		{"no index of states", made(posts(nil), `DROP INDEX posts_time_idx`), `no index "posts_time_idx"`},
		{"version 1", oldFile(t, 1), "no write-ahead log"},
		{"version 2", oldFile(t, 2), "schema version 2, this release needs 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before, _ := os.ReadFile(c.path)
			o := posts(nil)
			o.CreateTables = new(false)
			s, err := sqlitestore.Open(t.Context(), c.path, o)
			if err == nil {
				s.Close()
			}
			wantKind(t, err, annals.ErrInvalid)
			if !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("%v does not say %q", err, c.says)
			}
			if after, _ := os.ReadFile(c.path); string(after) != string(before) {
				t.Error("the file was changed")
			}
			for range 2 {
				migrate(t, c.path, o)
			}
			s = openAt(t, c.path, o)
			if _, err := put(s, "Post|2", 0, "title:body"); err != nil {
				t.Error(err)
			}
		})
	}
}

// A file is looked at as it is at one moment, while another process creates the tables.
func TestVersionWhileTablesAreCreated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	other := raw(t, path)
	mustExec(t, other, `PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF`)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			mustExec(t, other, `BEGIN IMMEDIATE; CREATE TABLE event_journal (n); CREATE TABLE annals (version INTEGER); INSERT INTO annals VALUES (1); COMMIT`)
			mustExec(t, other, `BEGIN IMMEDIATE; DROP TABLE annals; DROP TABLE event_journal; COMMIT`)
		}
	}()
	defer func() { close(stop); <-stopped }()
	conn, err := raw(t, path).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 1000 {
		if err := sqlitestore.CheckVersion(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
	}
}

// A look at a file waits while another process has its lock, as one has that closes it.
func TestLookWaitsForTheLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	conn, err := raw(t, path).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	mustExec(t, conn, `PRAGMA busy_timeout = 0`)
	mustExec(t, raw(t, path), `CREATE TABLE mine (n); BEGIN EXCLUSIVE`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := sqlitestore.CheckVersion(ctx, conn); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want a wait until the context ends", err)
	}
}

// newSetup is the Setup of a file; the path "" is that of one which can only show its schema.
func newSetup(t *testing.T, path string, o sqlitestore.Options) ability.Setup {
	t.Helper()
	s, err := sqlitestore.NewSetup(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func migrate(t *testing.T, path string, o sqlitestore.Options) {
	t.Helper()
	if _, err := newSetup(t, path, o).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func script(t *testing.T, o sqlitestore.Options) string {
	t.Helper()
	text, err := newSetup(t, "", o).Schema("")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestSetupWithoutAPath(t *testing.T) {
	t.Parallel()
	s := newSetup(t, "", sqlitestore.Options{})
	_, err := s.Pending(t.Context())
	wantKind(t, err, annals.ErrInvalid)
	_, err = s.Migrate(t.Context())
	wantKind(t, err, annals.ErrInvalid)
	_, err = s.Examine(t.Context())
	wantKind(t, err, annals.ErrInvalid)
	_, err = sqlitestore.NewSetup(":memory:", sqlitestore.Options{})
	wantKind(t, err, annals.ErrInvalid)
}
