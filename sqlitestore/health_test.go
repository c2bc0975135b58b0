package sqlitestore_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/sqlitestore"
)

func TestCheckHealth(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{})
	path := sqlitestore.Path(s)
	mustAppend(t, s, commit("T|1", 0, 1))
	db := raw(t, path)
	if _, err := db.ExecContext(t.Context(), `BEGIN IMMEDIATE; ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	version := count(t, db, `PRAGMA data_version`)
	if err := s.Unwrap().(ability.HealthChecker).CheckHealth(t.Context()); err != nil {
		t.Error(err)
	}
	if n := count(t, db, `PRAGMA data_version`); n != version {
		t.Error("a check wrote into the file")
	}
	if left, _ := filepath.Glob(path + "-health*"); len(left) > 0 {
		t.Errorf("a check left %v", left)
	}
	err := s.InTx(t.Context(), func(ctx context.Context, _ *sql.Tx, _ annals.Store) error {
		wantKind(t, s.Unwrap().(ability.HealthChecker).CheckHealth(ctx), annals.ErrInvalid)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	mustAppend(t, s, commit("T|1", 1, 1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantKind(t, s.Unwrap().(ability.HealthChecker).CheckHealth(t.Context()), annals.ErrClosed)
}

func TestCheckHealthOfReplacedFile(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{})
	if err := os.Rename(sqlitestore.Path(s), sqlitestore.Path(s)+".old"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, s.Unwrap().(ability.HealthChecker).CheckHealth(t.Context()), annals.ErrCorrupt)
}

// CheckHealth waits five seconds for the lock of another process, and then names the lock in its error.
func TestCheckHealthWhileLocked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	synctest.Test(t, func(t *testing.T) {
		s, other := openAt(t, path, sqlitestore.Options{}), raw(t, path)
		tx, err := other.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		err = s.Unwrap().(ability.HealthChecker).CheckHealth(t.Context())
		wantKind(t, err, annals.ErrUnavailable)
		if waited := time.Since(begun); !strings.Contains(fmt.Sprint(err), "write lock") || waited < 5*time.Second || waited > 6*time.Second {
			t.Errorf("after %v: %v", waited, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := s.Unwrap().(ability.HealthChecker).CheckHealth(t.Context()); err != nil {
			t.Error("without the lock:", err)
		}
	})
}
