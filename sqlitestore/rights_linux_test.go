package sqlitestore_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
)

// Missing rights fail at once, as the mistake that they are: no retry helps.
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
			dir := filepath.Join(t.TempDir(), "folder")
			if err := os.Mkdir(dir, 0o777); err != nil {
				t.Fatal(err)
			}
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
			t.Cleanup(func() { _ = os.Chmod(dir, 0o777) })
			asNobody(t, func() {
				s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
				if err == nil {
					s.Close()
				}
				wantKind(t, err, annals.ErrInvalid)
			})
		})
	}
}

// asNobody runs fn without root's right to every file.
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
