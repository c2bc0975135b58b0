package sqlitestore_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
)

// hold is the variable for a child process that takes the write lock of the file and stops.
const hold = "ANNALS_TEST_HOLD"

func init() { children[hold] = holdAndStop }

// holdAndStop takes the write lock and stops the process (SIGSTOP), as a frozen container would.
func holdAndStop(path string) error {
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	if err != nil {
		return err
	}
	if _, err := db.Begin(); err != nil {
		return err
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	<-time.After(time.Hour) // the signal may stop the process a moment later
	return nil
}

// When a process with the write lock has stopped, no call waits longer than its context, and reads do not wait. When the process
// has been killed, writes succeed.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	s, other := openAt(t, path, sqlitestore.Options{}), openAt(t, path, sqlitestore.Options{})
	mustAppend(t, s, commit("T|1", 0, 2))

	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stopped := exec.CommandContext(context.WithoutCancel(t.Context()), executable)
	stopped.Env = append(os.Environ(), hold+"="+path)
	if err := stopped.Start(); err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() {
		_ = stopped.Process.Kill()
		_ = stopped.Wait()
	})
	t.Cleanup(kill)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(stopped.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatal(status, err)
	}

	var wg sync.WaitGroup
	for name, call := range map[string]func(ctx context.Context) error{
		"append": func(ctx context.Context) error { _, err := s.Journal().Append(ctx, commit("T|1", 2, 1)); return err },
		"second": func(ctx context.Context) error { _, err := s.Journal().Append(ctx, commit("T|2", 0, 1)); return err },
		"state": func(ctx context.Context) error {
			_, err := s.States().Put(ctx, annals.StateWrite{ID: "S|1", Payload: payload("x")})
			return err
		},
		"transaction": func(ctx context.Context) error {
			return other.InTx(ctx, func(context.Context, *sql.Tx, annals.Store) error { return nil })
		},
		"delete": func(ctx context.Context) error { return other.Journal().DeleteTo(ctx, "T|1", 1) },
		"open": func(ctx context.Context) error {
			s, err := sqlitestore.Open(ctx, path, sqlitestore.Options{})
			if err == nil {
				s.Close()
			}
			return err
		},
	} {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := call(ctx); err == nil {
				t.Errorf("%s: done, while another process had the lock", name)
			} else {
				wantKind(t, err, annals.ErrUnavailable)
			}
		})
	}
	for range 50 {
		if got := fmt.Sprint(numbers(t, s, "T|1")); got != "[1 2]" {
			t.Errorf("there are %s", got)
		}
	}
	wg.Wait()
	if err := other.Close(); err != nil {
		t.Error(err)
	}

	answer := make(chan error, 1)
	go func() {
		_, err := s.Journal().Append(context.WithoutCancel(t.Context()), commit("T|1", 2, 1))
		answer <- err
	}()
	sqlitestore.AwaitQueue(s, 1)
	kill()
	if err := <-answer; err != nil {
		t.Error(err)
	}
	if got := numbers(t, s, "T|1"); len(got) != 3 {
		t.Errorf("there are %v", got)
	}
}
