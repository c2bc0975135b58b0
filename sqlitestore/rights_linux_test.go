package sqlitestore_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/sqlitestore"
)

// Missing rights are ErrInvalid at once, because no retry helps.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, folder os.FileMode
		there        bool
	}{
		"read-only file":       {0o444, 0o777, true},
		"unreadable file":      {0o000, 0o777, true},
		"read-only folder":     {0o666, 0o555, true},
		"new file, read-only":  {0, 0o555, false},
		"folder not to search": {0o666, 0o000, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := openFolder(t)
			path := filepath.Join(dir, "annals.db")
			if c.there {
				s := openAt(t, path, sqlitestore.Options{})
				if err := errors.Join(s.Close(), os.Chmod(path, c.file)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(dir, c.folder); err != nil {
				t.Fatal(err)
			}
			asNobody(t, func() {
				for _, o := range []sqlitestore.Options{{}, {CreateTables: new(false)}} {
					s, err := sqlitestore.Open(t.Context(), path, o)
					if err == nil {
						s.Close()
					}
					wantKind(t, err, annals.ErrInvalid)
				}
			})
		})
	}
}

// CheckHealth is ErrInvalid when the store may no longer create files in the folder.
func TestCheckHealthWithoutRights(t *testing.T) {
	t.Parallel()
	dir := openFolder(t)
	var s *sqlitestore.Store
	asNobody(t, func() {
		s = openAt(t, filepath.Join(dir, "annals.db"), sqlitestore.Options{})
		if err := s.Unwrap().(ability.HealthChecker).CheckHealth(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() { wantKind(t, s.Unwrap().(ability.HealthChecker).CheckHealth(t.Context()), annals.ErrInvalid) })
}

// A user who has no right to write can read while another process has the file open. When no process has it open, that user cannot open it.
func TestReadOnlyWithoutRights(t *testing.T) {
	t.Parallel()
	dir := openFolder(t)
	path := filepath.Join(dir, "annals.db")
	o := sqlitestore.Options{ReadOnly: true}
	s := openAt(t, path, sqlitestore.Options{})
	mustAppend(t, s, commit("T|1", 0, 1))
	if err := errors.Join(os.Chmod(path, 0o444), os.Chmod(path+"-wal", 0o444), os.Chmod(path+"-shm", 0o444), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		only, err := sqlitestore.Open(t.Context(), path, o)
		if err != nil {
			t.Error(err)
			return
		}
		mustAppend(t, s, commit("T|1", 1, 1))
		if got := numbers(t, only, "T|1"); len(got) != 2 {
			t.Errorf("got %v", got)
		}
		if err := errors.Join(only.Unwrap().(ability.HealthChecker).CheckHealth(t.Context()), only.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(os.Chmod(dir, 0o777), s.Close(), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		_, err := sqlitestore.Open(t.Context(), path, o)
		wantKind(t, err, annals.ErrInvalid)
	})
}

// openFolder is a folder that every user may use.
func openFolder(t *testing.T) (dir string) {
	dir = filepath.Join(t.TempDir(), "folder")
	parent := filepath.Dir(dir) // a folder within one of the test
	if err := errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777), os.Chmod(parent, 0o755), os.Chmod(filepath.Dir(parent), 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o777) })
	return dir
}

// asNobody runs fn as a user who is not root.
func asNobody(t *testing.T, fn func()) {
	if os.Getuid() != 0 {
		fn()
		return
	}
	const nobody = 65534
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		if err := syscall.Setfsuid(nobody); err != nil {
			t.Error(err)
			return
		}
		fn()
	}()
	<-ended
}
