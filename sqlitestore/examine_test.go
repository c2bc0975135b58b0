package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/sqlitestore"
)

func setUp(t *testing.T, path string, o sqlitestore.Options) ability.Setup {
	t.Helper()
	s, err := o.SetupURL(t.Context(), &url.URL{Scheme: "sqlite", Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wrong are the codes of what is refused and of problems, sorted.
func wrong(t *testing.T, path string, o sqlitestore.Options) (codes []string) {
	t.Helper()
	found, err := setUp(t, path, o).Examine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Code == "" || f.Found == "" || f.Severity == ability.Problem && (f.Means == "" || f.Do == "") {
			t.Errorf("%+v", f)
		}
		if f.Severity != ability.Note {
			codes = append(codes, f.Code)
		}
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// What Open refuses, Examine finds, and Open refuses nothing else.
func TestExamineFindsWhatOpenRefuses(t *testing.T) {
	t.Parallel()
	titled := sqlitestore.Options{StateTypes: map[string]annals.StateType[*sql.Tx]{"X": {Table: "titled", Columns: []string{"title"}, Bind: func(annals.State) (annals.Columns, error) { return nil, nil }}}}
	for name, c := range map[string]struct {
		sql   string // after the creation of the tables
		o     sqlitestore.Options
		codes string
	}{
		"nothing":       {"", sqlitestore.Options{}, ""},
		"column":        {"ALTER TABLE snapshot DROP COLUMN tags", sqlitestore.Options{}, "column"},
		"tables":        {"DROP TABLE snapshot; DROP TABLE offsets", sqlitestore.Options{}, "index table"},
		"newer":         {"UPDATE annals SET version = 99", sqlitestore.Options{}, "newer-tables"},
		"older":         {"UPDATE annals SET version = 4", sqlitestore.Options{}, "older-tables"},
		"index":         {"DROP INDEX event_journal_time_idx", sqlitestore.Options{}, "index"},
		"journal mode":  {"PRAGMA journal_mode = DELETE", sqlitestore.Options{}, "journal-mode"},
		"foreign":       {"DROP TABLE annals", sqlitestore.Options{}, "foreign-table"},
		"types":         {"", titled, "index table"},
		"all at once":   {"PRAGMA journal_mode = DELETE; DROP TABLE snapshot; DROP INDEX event_journal_time_idx", titled, "index journal-mode table"},
		"future events": {"UPDATE annals SET clock = 4000000000000000", sqlitestore.Options{}, "clock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "x.db")
			migrate(t, path, sqlitestore.Options{})
			if c.sql != "" {
				mustExec(t, raw(t, path), c.sql)
			}
			codes := strings.Join(wrong(t, path, c.o), " ")
			if codes != c.codes {
				t.Errorf("found %q, want %q", codes, c.codes)
			}
			c.o.CreateTables = new(false)
			s, err := sqlitestore.Open(t.Context(), path, c.o)
			if (err != nil) != (codes != "" && codes != "clock") {
				t.Errorf("Open says %v, and Examine finds %q", err, codes)
			}
			if err == nil {
				_ = s.Close()
			}
		})
	}
}

// A file that is missing or no database, and a lock that another program holds.
func TestExamineFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	none, text := filepath.Join(folder, "none.db"), filepath.Join(folder, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if codes := wrong(t, none, sqlitestore.Options{}); !slices.Equal(codes, []string{"file"}) {
		t.Errorf("found %q", codes)
	}
	if _, err := os.Stat(none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Examine has made the file: %v", err)
	}
	if codes := wrong(t, text, sqlitestore.Options{}); !slices.Equal(codes, []string{"file"}) {
		t.Errorf("found %q", codes)
	}
	locked := filepath.Join(folder, "locked.db")
	migrate(t, locked, sqlitestore.Options{})
	mustExec(t, raw(t, locked), "BEGIN IMMEDIATE")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := setUp(t, locked, sqlitestore.Options{}).Examine(ctx); !errors.Is(err, annals.ErrUnavailable) {
		t.Errorf("Examine ends with %v", err)
	}
}

// What Pending says, Migrate runs: for a new file, and for one of an older release.
func TestSetupMigrates(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	s := setUp(t, path, sqlitestore.Options{})
	if a, err := s.Schema("sql"); err != nil || a != script(t, sqlitestore.Options{}) {
		t.Errorf("%q, %v", a, err)
	}
	if _, err := s.Schema("json"); !errors.Is(err, annals.ErrUnsupported) {
		t.Error(err)
	}
	migrates := func(want ...string) {
		t.Helper()
		pending, err := s.Pending(t.Context())
		if err != nil || len(pending) < len(want) {
			t.Fatalf("%q, %v", pending, err)
		}
		for _, text := range want {
			if !slices.ContainsFunc(pending, func(p string) bool { return strings.Contains(p, text) }) {
				t.Errorf("%q has no %q", pending, text)
			}
		}
		if done, err := s.Migrate(t.Context()); err != nil || len(done) != len(pending) {
			t.Errorf("%q, %v, want %q", done, err, pending)
		}
		if pending, err := s.Pending(t.Context()); err != nil || len(pending) > 0 {
			t.Errorf("%q, %v", pending, err)
		}
		if codes := wrong(t, path, sqlitestore.Options{}); codes != nil {
			t.Errorf("found %q", codes)
		}
	}
	migrates("PRAGMA journal_mode = WAL", "CREATE TABLE IF NOT EXISTS event_journal", "INSERT INTO annals")
	mustExec(t, raw(t, path), "ALTER TABLE event_journal DROP COLUMN written; DROP INDEX snapshot_time_idx; UPDATE annals SET version = 2")
	migrates("ADD COLUMN written", "INSERT INTO event_journal", "UPDATE annals SET version", "CREATE INDEX IF NOT EXISTS snapshot_time_idx")
	if done, err := s.Migrate(t.Context()); err != nil || len(done) != 0 {
		t.Errorf("%q, %v", done, err)
	}
}
