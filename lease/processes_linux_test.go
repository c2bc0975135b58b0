package lease_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/lease"
	"github.com/annals-go/annals/sqlitestore"
)

// playMember makes the test binary a process that works while it has the lease. It is the name of the file.
const playMember = "LEASE_TEST_FILE"

func TestMain(m *testing.M) {
	if file := os.Getenv(playMember); file != "" {
		if err := play(context.Background(), file); err != nil {
			panic(err)
		}
		return
	}
	m.Run()
}

// play writes rows with its process id and fence, until a row has a higher fence.
func play(ctx context.Context, file string) error {
	store, err := sqlitestore.Open(ctx, file, sqlitestore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	return lease.Run(ctx, store, "work", lease.Options{Lease: 300 * time.Millisecond}, func(ctx context.Context, fence annals.SeqNr) error {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			err := store.InTx(ctx, func(ctx context.Context, tx *sql.Tx, _ annals.Store) error {
				_, err := tx.ExecContext(ctx, `INSERT INTO work (pid, fence) SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM work WHERE fence > ?)`,
					os.Getpid(), fence, fence)
				return err
			})
			if err != nil && ctx.Err() == nil && !annals.SafeToRetry(err) && !errors.Is(err, annals.ErrConflict) {
				return err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

// Of two processes on one file one works. When it is killed, the other one goes on, with a higher fence.
func TestUnderKill(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "lease.db")
	store, err := sqlitestore.Open(t.Context(), file, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, _ annals.Store) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE work (n INTEGER PRIMARY KEY, pid INTEGER, fence INTEGER)`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	children := map[int]*exec.Cmd{}
	start := func() {
		child := exec.CommandContext(t.Context(), self)
		child.Env = append(os.Environ(), playMember+"="+file)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		children[child.Process.Pid] = child
	}
	start()
	start()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	fence := 0
	for range 3 {
		pid, after := 0, fence
		for end := time.Now().Add(time.Minute); pid == 0; <-look.C {
			err := store.DB().QueryRowContext(t.Context(), `SELECT pid, fence FROM work WHERE fence > ? ORDER BY n DESC LIMIT 1`, after).Scan(&pid, &fence)
			if err != nil && !errors.Is(err, sql.ErrNoRows) || time.Now().After(end) {
				t.Fatalf("nobody works after fence %d: %v", after, err)
			}
		}
		killed := children[pid]
		if killed == nil {
			t.Fatalf("process %d works, which is not one of %v", pid, children)
		}
		if err := killed.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = killed.Wait()
		delete(children, pid)
		start()
	}
	for _, child := range children {
		_ = child.Process.Kill()
		_ = child.Wait()
	}
}
