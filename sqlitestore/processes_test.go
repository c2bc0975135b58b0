package sqlitestore_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
)

// process is a running child.
type process struct {
	cmd          *exec.Cmd
	stdin        io.WriteCloser
	acknowledged *bufio.Scanner
	stderr       strings.Builder
}

func startChild(t *testing.T, path, name string) *process {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), executable)}
	p.cmd.Env = append(os.Environ(), playChild+"="+path)
	p.cmd.Stderr = &p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.acknowledged = bufio.NewScanner(stdout)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(p.stdin, name); err != nil {
		t.Fatal(err)
	}
	return p
}

// next returns the next acknowledgement; false when the process has ended.
func (p *process) next(t *testing.T, into map[annals.PersistenceID]annals.SeqNr) bool {
	t.Helper()
	if !p.acknowledged.Scan() {
		return false
	}
	var (
		id   string
		last annals.SeqNr
	)
	if _, err := fmt.Sscan(p.acknowledged.Text(), &id, &last); err != nil {
		return false // cut off by the kill
	}
	into[annals.PersistenceID(id)] = max(into[annals.PersistenceID(id)], last)
	return true
}

// checkBatches compares what is stored with what was acknowledged: nothing is lost, and no batch is stored in part.
func checkBatches(t *testing.T, s annals.Store, acknowledged map[annals.PersistenceID]annals.SeqNr) (stored int) {
	t.Helper()
	for id, last := range acknowledged {
		n := len(numbers(t, s, id)) // checks order and payloads
		if n < int(last) {
			t.Errorf("%s: %d was acknowledged, %d are stored", id, last, n)
		}
		if n%childBatch != 0 {
			t.Errorf("%s: %d events, a batch has %d", id, n, childBatch)
		}
		stored += n
	}
	return stored
}

// A process that is killed at any moment has lost nothing that it acknowledged, and no batch is stored in part.
func TestKill(t *testing.T) {
	t.Parallel()
	const rounds = 20
	path := filepath.Join(t.TempDir(), "annals.db")
	all := map[annals.PersistenceID]annals.SeqNr{}
	stored := 0
	for round := range rounds {
		p := startChild(t, path, fmt.Sprintf("T%d", round%3)) // entities of earlier rounds go on
		for range 5 + 17*round%90 {
			if !p.next(t, all) {
				t.Fatalf("round %d: the child ended by itself: %s", round, p.stderr.String())
			}
		}
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for p.next(t, all) { // what it said before it died counts
		}
		if err := p.cmd.Wait(); err == nil {
			t.Fatal("the child was not killed")
		}
		s := openAt(t, path, sqlitestore.Options{})
		stored = checkBatches(t, s, all)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d rounds, %d events stored", rounds, stored)
}

// Two stores in this process and one in another write to the same file. No call returns SQLITE_BUSY, no write is lost, and the
// times of all commits rise.
func TestProcessesShareAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	all := map[annals.PersistenceID]annals.SeqNr{}
	p := startChild(t, path, "Child")
	if !p.next(t, all) {
		t.Fatal("the child does not write: ", p.stderr.String())
	}
	var wg sync.WaitGroup
	stores := []*sqlitestore.Store{openAt(t, path, sqlitestore.Options{}), openAt(t, path, sqlitestore.Options{})}
	for i, s := range stores {
		for w := range 4 {
			wg.Go(func() {
				id := annals.PersistenceID(fmt.Sprintf("Here|%d-%d", i, w))
				for n := range 25 {
					if _, err := s.Journal().Append(t.Context(), commit(id, annals.SeqNr(n*childBatch), childBatch)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	// Of several writers of the same number of one entity, one succeeds.
	won := make(chan bool, 16)
	for i := range cap(won) {
		wg.Go(func() {
			_, err := stores[i%2].Journal().Append(t.Context(), commit("Race|1", 0, 1))
			if err != nil {
				wantKind(t, err, annals.ErrConflict)
			}
			won <- err == nil
		})
	}
	wg.Wait()
	winners := 0
	for range cap(won) {
		if <-won {
			winners++
		}
	}
	if winners != 1 {
		t.Errorf("%d winners", winners)
	}
	for range 20 { // it still gets its turn
		if !p.next(t, all) {
			t.Fatal("the child stopped: ", p.stderr.String())
		}
	}
	if err := p.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	for p.next(t, all) {
	}
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err, p.stderr.String())
	}
	checkBatches(t, stores[1], all)
	var before annals.Event
	for e, err := range stores[0].Query().Events(t.Context(), annals.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Time.Before(before.Time) || e.Time.Equal(before.Time) && e.WriteID != before.WriteID {
			t.Fatalf("%s %d at %v follows %s %d at %v", e.ID, e.SeqNr, e.Time, before.ID, before.SeqNr, before.Time)
		}
		before = e
	}
}

// When two processes, or two stores, open a new file at once, one of them creates the tables.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			mustAppend(t, s, commit(annals.PersistenceID(fmt.Sprintf("T|%d", i)), 0, 1))
		})
	}
	wg.Wait()
}
