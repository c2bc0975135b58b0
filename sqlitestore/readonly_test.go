package sqlitestore_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/hosttest"
	"github.com/annals-go/annals/sqlitestore"
)

func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{})
	hosttest.ReadOnly(t, s, func() annals.Store { return openAt(t, sqlitestore.Path(s), sqlitestore.Options{ReadOnly: true}) }, true)
}

// A store for reading creates no file and changes none, also where no other process has the file open.
func TestReadOnlyChangesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	o := sqlitestore.Options{ReadOnly: true, CreateTables: new(true)}
	if s, err := sqlitestore.Open(t.Context(), path, o); s != nil || !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("no file: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file was created")
	}
	s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Journal().Append(t.Context(), commit("Only|a", 0, 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := contents(t, path)
	for range 2 {
		only, err := sqlitestore.Open(t.Context(), path, o)
		if err != nil {
			t.Fatal(err)
		}
		if last, err := only.Journal().LastSeqNr(t.Context(), "Only|a"); last != 1 || err != nil {
			t.Error(last, err)
		}
		if err := only.Close(); err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(contents(t, path), before) {
		t.Error("the file was changed")
	}
	setup, err := sqlitestore.NewSetup(path, o)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := setup.Examine(t.Context()); err != nil {
		t.Error(found, err)
	}
	if _, err := setup.Migrate(t.Context()); !errors.Is(err, annals.ErrUnsupported) {
		t.Errorf("migrate: %v", err)
	}
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
