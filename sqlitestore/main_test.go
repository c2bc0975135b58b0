package sqlitestore_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
)

// When the environment has this variable, the test binary is a second process on the file that it names: it appends from several
// goroutines, each to an entity of its own, until it is killed or its input ends, and acknowledges every commit on its output.
const playChild = "ANNALS_TEST_CHILD"

// children are the functions that the test binary runs as a second process, by the variable that names the file.
var children = map[string]func(path string) error{
	playChild: func(path string) error { return child(path, os.Stdin, os.Stdout) },
}

func TestMain(m *testing.M) {
	for name, play := range children {
		if path := os.Getenv(name); path != "" {
			if err := play(path); err != nil {
				panic(err)
			}
			return
		}
	}
	m.Run()
}

const (
	childWriters = 8
	childBatch   = 3
)

// child reads the name of its entities from one line, and writes "id last" for every commit.
func child(path string, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := sqlitestore.Open(ctx, path, sqlitestore.Options{})
	if err != nil {
		return err
	}
	lines := bufio.NewReader(in)
	name, err := lines.ReadString('\n')
	if err != nil {
		return err
	}
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed error
	)
	for w := range childWriters {
		wg.Go(func() {
			id := annals.PersistenceID(fmt.Sprintf("%s|%d", strings.TrimSpace(name), w))
			err := childAppends(ctx, s, id, func(last annals.SeqNr) error {
				mu.Lock()
				defer mu.Unlock()
				_, err := fmt.Fprintln(out, id, last)
				return err
			})
			if err != nil && ctx.Err() == nil {
				mu.Lock()
				defer mu.Unlock()
				failed = err
				cancel()
			}
		})
	}
	_, _ = io.Copy(io.Discard, lines)
	cancel()
	wg.Wait()
	if err := s.Close(); err != nil {
		return err
	}
	return failed
}

func childAppends(ctx context.Context, s annals.Store, id annals.PersistenceID, acknowledge func(annals.SeqNr) error) error {
	last, err := s.Journal().LastSeqNr(ctx, id)
	for err == nil {
		var r annals.Receipt
		if r, err = s.Journal().Append(ctx, commit(id, last, childBatch)); err == nil {
			last = r.SeqNr
			err = acknowledge(last)
		}
	}
	return err
}
