package pgstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// childURL is set in a test process that is a writer to be killed.
const childURL = "PGSTORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		if err := writeUntilKilled(context.Background(), url); err != nil {
			panic(err)
		}
		return
	}
	if url := os.Getenv(ownerURL); url != "" {
		if err := own(context.Background(), url, os.Stdin, os.Stdout); err != nil {
			panic(err)
		}
		return
	}
	postgres.Main(m)
}

// countChange is a change handler that counts.
func countChange(ctx context.Context, tx pgx.Tx, _ annals.State) error {
	_, err := tx.Exec(ctx, "UPDATE counts SET n = n + 1")
	return err
}

var countingOptions = pgstore.Options{StateTypes: map[string]annals.StateType[pgx.Tx]{"C": {OnChange: countChange}}}

const counted = 6 // entities

// countUp writes an entity's next revision. A conflict means that another writer stored this revision, which is fine.
func countUp(ctx context.Context, s annals.Store, i int) error {
	id := annals.PersistenceID(fmt.Sprintf("C|%d", i%counted))
	state, _, err := s.States().Get(ctx, id)
	if err != nil {
		return err
	}
	_, err = s.States().Put(ctx, annals.StateWrite{ID: id, After: state.Revision, Payload: text("x")})
	if errors.Is(err, annals.ErrConflict) {
		return nil
	}
	return err
}

func writeUntilKilled(ctx context.Context, url string) error {
	p, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	s, err := pgstore.Open(ctx, p, countingOptions)
	if err != nil {
		return err
	}
	errs := make(chan error)
	for w := range 4 {
		go func() {
			for i := w; ; i++ {
				if err := countUp(ctx, s, i); err != nil {
					errs <- err
					return
				}
				fmt.Println(i)
			}
		}()
	}
	return <-errs
}

// Processes are killed during writes with a change handler, while another process writes the same states. The handler's counts add up to
// the sum of the last revisions.
func TestHandlerExactlyOnceUnderKill(t *testing.T) {
	t.Parallel()
	changes := *crashes * 1000
	url := postgres.Schema(t)
	openAt(t, url, pgstore.Options{CreateTables: true})
	run(t, url, "CREATE TABLE counts (n BIGINT); INSERT INTO counts VALUES (0)")
	s := openAt(t, url, countingOptions)
	for done := 0; done < changes; query(t, url, "SELECT n FROM counts", nil, &done) {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), childURL+"="+url)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; n < 400 && lines.Scan(); n++ { // the child is at work: write beside it
			if n%3 == 0 {
				if err := countUp(t.Context(), s, n); err != nil {
					t.Error(err)
				}
			}
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := child.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}
	}
	// The server may still be at work for the last child: its transactions end by themselves, and then the numbers agree.
	run(t, url, "BEGIN; LOCK TABLE counts; COMMIT")
	var n, revisions int64
	query(t, url, "SELECT (SELECT n FROM counts), (SELECT sum(revision) FROM durable_state)", nil, &n, &revisions)
	if n != revisions {
		t.Errorf("the handler counted %d changes, %d were stored", n, revisions)
	}
}

// The answer to a COMMIT gets lost. The store finds out that the write was stored, and the handler's work counts once.
func TestLostCommit(t *testing.T) {
	t.Parallel()
	p := newProxy(t, postgres.Schema(t))
	openAt(t, p.URL, pgstore.Options{CreateTables: true})
	run(t, p.URL, "CREATE TABLE counts (n BIGINT); INSERT INTO counts VALUES (0)")
	s := openAt(t, p.URL, countingOptions)
	for after := range annals.SeqNr(4) {
		lost := lose(p, postgres.Commit)
		r, err := s.States().Put(t.Context(), annals.StateWrite{ID: "C|1", After: after, Payload: text("x"), WriteID: annals.NewWriteID()})
		if err != nil || r.SeqNr != after+1 || !r.Repeated {
			t.Fatalf("got %+v, %v, want revision %d, found to be stored", r, err, after+1)
		}
		<-lost
		if n := count(t, p.URL, "SELECT n FROM counts"); n != int(after)+1 {
			t.Fatalf("the handler counted %d, want %d", n, after+1)
		}
	}
	// Without the column for WriteIDs the store cannot know whether its write was stored.
	run(t, p.URL, "ALTER TABLE durable_state DROP COLUMN write_ids")
	blind := openAt(t, p.URL, countingOptions)
	if blind.Capabilities().IdempotentState {
		t.Error("a store without write_ids claims IdempotentState")
	}
	lose(p, postgres.Commit)
	wantKind(t, put(t, blind, "C|1", 4, text("x")), annals.ErrUnknown)
}

// The network loses an answer and keeps the connection open. The store does not wait without end, and finds out what happened.
func TestSilence(t *testing.T) {
	t.Parallel()
	p := newProxy(t, postgres.Schema(t))
	s := openAt(t, p.URL, pgstore.Options{CreateTables: true, WriteTimeout: 200 * time.Millisecond})
	first := annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Payload: text("x")}}, WriteID: annals.NewWriteID()}
	err := patiently(func() error {
		_, err := s.Journal().Append(t.Context(), first)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for after, tags := range [][]string{1: nil, 2: {"a tag"}} { // both ways to the server
		if after == 0 {
			continue
		}
		lost := once(p, postgres.Write, postgres.Fault{LoseAnswer: true, KeepOpen: true})
		r, err := s.Journal().Append(t.Context(), annals.Commit{ID: "T|1", After: annals.SeqNr(after), Events: []annals.NewEvent{{Payload: text("x"), Tags: tags}}})
		if err != nil || !r.Repeated || r.SeqNr != annals.SeqNr(after)+1 {
			t.Errorf("after %d: %+v, %v, want the event found", after, r, err)
		}
		<-lost
	}
}

// The answers to group statements get lost repeatedly while many write. Every commit is stored once.
func TestLostGroups(t *testing.T) {
	t.Parallel()
	const writers, each = 24, 12
	p := newProxy(t, postgres.Schema(t))
	s := openAt(t, p.URL, pgstore.Options{CreateTables: true})
	var lost, written atomic.Int64
	p.SetRule(func(r postgres.Request) postgres.Fault {
		if r.Kind != postgres.Write || r.Number%3 > 0 {
			return postgres.Fault{}
		}
		lost.Add(1)
		return postgres.Fault{LoseAnswer: true}
	})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			id := annals.PersistenceID(fmt.Sprintf("T|%d", w))
			for after := annals.SeqNr(0); after < each || lost.Load() < 10; after++ { // the larger the groups, the fewer statements there are
				r, err := s.Journal().Append(t.Context(), annals.Commit{ID: id, After: after, Events: []annals.NewEvent{{Payload: text(fmt.Sprint(after + 1))}}})
				if err != nil || r.SeqNr != after+1 {
					t.Errorf("%q after %d: %+v, %v", id, after, r, err)
					return
				}
				written.Add(1)
			}
		})
	}
	wg.Wait()
	p.SetRule(nil)
	if n := count(t, p.URL, "SELECT count(*) FROM event_journal"); int64(n) != written.Load() {
		t.Errorf("%d events, want %d", n, written.Load())
	}
}

// A server breaks all connections and comes back. Each failed call returns an error of the right kind, and nothing is stored twice.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	p := newProxy(t, postgres.Schema(t))
	s := openAt(t, p.URL, pgstore.Options{CreateTables: true})
	for after := range annals.SeqNr(6) {
		p.Cut()
		c := annals.Commit{ID: "T|1", After: after, Events: []annals.NewEvent{{Payload: text("x")}}, WriteID: annals.NewWriteID()}
		r, err := s.Journal().Append(t.Context(), c)
		for try := 0; annals.SafeToRetry(err) && try < 20 && backoff.Wait(t.Context(), try) == nil; try++ { // attempts to connect are paced
			r, err = s.Journal().Append(t.Context(), c)
		}
		if err != nil || r.SeqNr != after+1 {
			t.Fatalf("after %d: %+v, %v", after, r, err)
		}
	}
	if n := count(t, p.URL, "SELECT count(*) FROM event_journal"); n != 6 {
		t.Errorf("%d events, want 6", n)
	}
}

// A write whose outcome is not known when the caller's context ends is ErrUnknown.
func TestContextEndsInAWrite(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true})
	w := annals.NewWriteID()
	run(t, url, holding(w))
	release := lockSchema(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	c := annals.Commit{ID: "Held|1", WriteID: w, Events: []annals.NewEvent{{Payload: text("x")}}}
	go func() {
		_, err := s.Journal().Append(ctx, c)
		result <- err
	}()
	awaitHeld(t, url)
	cancel()
	err := <-result
	wantKind(t, err, annals.ErrUnknown)
	if !strings.Contains(errorText(err), "Held|1") {
		t.Errorf("the error does not name the entity: %v", err)
	}
	release()
	if r, err := s.Journal().Append(t.Context(), c); err != nil || r.SeqNr != 1 {
		t.Errorf("sent again: %+v, %v", r, err)
	}
	if n := count(t, url, "SELECT count(*) FROM event_journal"); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}
