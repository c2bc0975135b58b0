package sqlitestore_test

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
)

// A new file can be read and written by its owner only. An existing file keeps its mode.
func TestFileModes(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]fs.FileMode{"new.db": 0o600, "there.db": 0o640} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if name == "there.db" {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, want); err != nil { // whatever the umask
				t.Fatal(err)
			}
		}
		s := openAt(t, path, sqlitestore.Options{})
		mustAppend(t, s, commit("T|1", 0, 1))
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 3 {
			t.Errorf("%s: the folder holds %v, %v; want the database, -wal and -shm", name, entries, err)
		}
		for _, entry := range entries {
			if info, err := entry.Info(); err != nil || info.Mode() != want {
				t.Errorf("%s has mode %v, %v, want %v", entry.Name(), info.Mode(), err, want)
			}
		}
	}
}

// When the file, its log or its shared memory is deleted or replaced, the store acknowledges nothing any more, because what
// it writes would not be found.
func TestDeletedOrReplacedFiles(t *testing.T) {
	t.Parallel()
	move := func(path string) error { return os.Rename(path, path+"-elsewhere") }
	replace := func(path string) error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path+"-other", data, 0o600); err != nil {
			return err
		}
		return os.Rename(path+"-other", path)
	}
	for name, does := range map[string]func(path string) error{"deleted": os.Remove, "moved": move, "replaced": replace} {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			t.Run(strings.TrimSpace("annals.db"+suffix+" "+name), func(t *testing.T) {
				t.Parallel()
				resolved, path := filepath.Join(t.TempDir(), "annals.db"), filepath.Join(t.TempDir(), "link.db")
				if err := os.Symlink(resolved, path); err != nil {
					t.Fatal(err)
				}
				s := openAt(t, path, sqlitestore.Options{})
				mustAppend(t, s, commit("T|1", 0, 1))
				if err := does(resolved + suffix); err != nil {
					t.Fatal(err)
				}
				sqlitestore.ForgetCheck(s)
				_, err := s.Journal().Append(t.Context(), commit("T|1", 1, 1))
				wantKind(t, err, annals.ErrCorrupt)
				if !strings.Contains(fmt.Sprint(err), suffix+" was deleted or replaced") {
					t.Errorf("%v does not name the file", err)
				}
				err = s.InTx(t.Context(), func(context.Context, *sql.Tx, annals.Store) error { return nil })
				wantKind(t, err, annals.ErrCorrupt)
				_, err = s.Journal().LastSeqNr(t.Context(), "T|1") // on a connection of its own
				wantKind(t, err, annals.ErrCorrupt)
			})
		}
	}
}

// Open checks the columns and keys of the store's own tables. The error names all that are missing.
func TestOpenChecksTables(t *testing.T) {
	t.Parallel()
	for text, says := range map[string][]string{
		`ALTER TABLE event_journal DROP COLUMN writer; ALTER TABLE snapshot DROP COLUMN tags`: {
			`table "event_journal" has no column "writer"`, `table "snapshot" has no column "tags"`},
		`DROP TABLE offset_epochs`:                            {`there is no table "offset_epochs"`},
		`ALTER TABLE durable_state RENAME COLUMN writes TO w`: {`table "durable_state" has no column "writes"`},
		`CREATE TABLE copy AS SELECT * FROM event_journal; DROP TABLE event_journal; ALTER TABLE copy RENAME TO event_journal`: {
			`column "seq_nr" takes NULL`, `column "seq_nr" is not number 2 of the primary key`},
	} {
		t.Run(says[0], func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "annals.db")
			if err := openAt(t, path, sqlitestore.Options{}).Close(); err != nil {
				t.Fatal(err)
			}
			mustExec(t, raw(t, path), text)
			s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
			if err == nil {
				s.Close()
			}
			wantKind(t, err, annals.ErrCorrupt)
			for _, part := range says {
				if !strings.Contains(fmt.Sprint(err), part) {
					t.Errorf("%v does not say %s", err, part)
				}
			}
		})
	}
}
