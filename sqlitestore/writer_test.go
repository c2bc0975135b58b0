package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
)

// held is a store whose writer waits until release is called.
func held(t *testing.T, o sqlitestore.Options) (s *sqlitestore.Store, release func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "annals.db")
	s = openAt(t, path, o)
	tx, err := raw(t, path).BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}

// All writes that wait share one transaction and one fsync.
func TestGroupSharesOneCommit(t *testing.T) {
	t.Parallel()
	s, release := held(t, sqlitestore.Options{})
	const writers = 64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			if _, err := s.Journal().Append(t.Context(), commit(annals.PersistenceID(fmt.Sprintf("T|%d", w)), 0, 2)); err != nil {
				t.Error(err)
			}
		})
	}
	sqlitestore.AwaitQueue(s, writers)
	release()
	wg.Wait()
	if groups, writes := sqlitestore.Commits(s); groups != 1 || writes != writers {
		t.Errorf("%d commits for %d writes, want 1 for %d", groups, writes, writers)
	}
}

// The appends of a single writer do not wait to become groups.
func TestLoneWriterCommitsEach(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{})
	for i := range 10 {
		mustAppend(t, s, commit("T|1", annals.SeqNr(i), 1))
	}
	if groups, writes := sqlitestore.Commits(s); groups != 10 || writes != 10 {
		t.Errorf("%d commits for %d writes", groups, writes)
	}
}

// Writes that conflict, are repeated, or break a constraint do not affect the others in their group.
func TestGroupIsolatesMembers(t *testing.T) {
	t.Parallel()
	s, release := held(t, sqlitestore.Options{
		Init: executing(sqlitestore.StateTable("carts", "amount INTEGER CHECK (amount > 0)"),
			`CREATE TRIGGER IF NOT EXISTS harsh BEFORE INSERT ON carts WHEN new.amount = 13 BEGIN SELECT raise(ROLLBACK, 'unlucky'); END`),
		StateTypes: map[string]annals.StateType[*sql.Tx]{"Cart": {Table: "carts", Columns: []string{"amount"},
			Bind: func(s annals.State) (annals.Columns, error) { return annals.Columns{"amount": int64(s.Data[0])}, nil }}},
	})
	var wg sync.WaitGroup
	queued := 0
	write := func(want error, do func() error) {
		wg.Go(func() {
			if err := do(); !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("got %v, want %v", err, want)
			}
		})
		queued++
		sqlitestore.AwaitQueue(s, queued)
	}
	appendOf := func(c annals.Commit) func() error {
		return func() error { _, err := s.Journal().Append(t.Context(), c); return err }
	}
	putOf := func(id annals.PersistenceID, amount byte) func() error {
		return func() error {
			w := annals.StateWrite{ID: id, Payload: annals.Payload{SerializerID: 1, Data: []byte{amount}}, Event: &annals.NewEvent{Payload: payload("1")}}
			_, err := s.States().Put(t.Context(), w)
			return err
		}
	}
	again := commit("T|1", 0, 2)
	write(nil, appendOf(again))
	write(annals.ErrConflict, appendOf(commit("T|1", 0, 3)))
	write(nil, appendOf(again)) // the same write once more
	write(annals.ErrConflict, appendOf(commit("T|1", 5, 1)))
	write(nil, putOf("Cart|1", 7))
	write(annals.ErrConstraint, putOf("Cart|2", 0))
	write(annals.ErrConstraint, putOf("Cart|3", 13)) // its trigger rolls the transaction back, with the neighbours
	write(nil, appendOf(commit("T|1", 2, 1)))
	write(nil, appendOf(commit("T|2", 0, 100)))
	release()
	wg.Wait()
	for id, want := range map[annals.PersistenceID]int{"T|1": 3, "T|2": 100, "Cart|1": 1, "Cart|2": 0, "Cart|3": 0} {
		if got := len(numbers(t, s, id)); got != want {
			t.Errorf("%s has %d events, want %d", id, got, want)
		}
	}
	if n := count(t, s.DB(), `SELECT count(*) FROM carts`); n != 1 {
		t.Errorf("%d carts", n)
	}
}

// A write for which the database has no space fails alone, and later writes succeed.
func TestFullDatabase(t *testing.T) {
	t.Parallel()
	s, release := held(t, sqlitestore.Options{Init: executing(`PRAGMA max_page_count = 64`)})
	large := annals.Commit{ID: "T|large", Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1, Data: make([]byte, 1<<20)}}}}
	var wg sync.WaitGroup
	wg.Go(func() { mustAppend(t, s, commit("T|1", 0, 2)) })
	wg.Go(func() {
		_, err := s.Journal().Append(t.Context(), large)
		wantKind(t, err, annals.ErrUnavailable)
	})
	wg.Go(func() { mustAppend(t, s, commit("T|2", 0, 2)) })
	sqlitestore.AwaitQueue(s, 3)
	release()
	wg.Wait()
	for _, id := range []annals.PersistenceID{"T|1", "T|2"} {
		if got := numbers(t, s, id); len(got) != 2 {
			t.Errorf("%s has %v", id, got)
		}
	}
	if got := numbers(t, s, large.ID); got != nil {
		t.Errorf("the large one left %v", got)
	}
}

// A write whose context ends while it waits is not executed.
func TestWithdrawnWrite(t *testing.T) {
	t.Parallel()
	s, release := held(t, sqlitestore.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 2)
	go func() { _, err := s.Journal().Append(ctx, commit("T|1", 0, 1)); left <- err }()
	sqlitestore.AwaitQueue(s, 1)
	go func() {
		left <- s.InTx(ctx, func(context.Context, *sql.Tx, annals.Store) error { return errors.New("must not run") })
	}()
	cancel()
	for range 2 {
		err := <-left
		wantKind(t, err, annals.ErrUnavailable)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v does not wrap the context's error", err)
		}
	}
	release()
	mustAppend(t, s, commit("T|2", 0, 1))
	if last, err := s.Journal().LastSeqNr(t.Context(), "T|1"); last != 0 || err != nil {
		t.Errorf("the withdrawn write left number %d, %v", last, err)
	}
	_, err := s.Journal().Append(ctx, commit("T|3", 0, 1))
	wantKind(t, err, annals.ErrUnavailable)
}

// Writes that are withdrawn while another process has the lock do not stay in memory.
func TestWithdrawnWritesAreDropped(t *testing.T) {
	t.Parallel()
	s, release := held(t, sqlitestore.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	var waits, wg sync.WaitGroup
	waits.Go(func() { mustAppend(t, s, commit("T|waits", 0, 1)) })
	sqlitestore.AwaitQueue(s, 1)
	for i := range 100 {
		wg.Go(func() {
			_, err := s.Journal().Append(ctx, commit(annals.PersistenceID(fmt.Sprintf("T|%d", i)), 0, 1))
			wantKind(t, err, annals.ErrUnavailable)
		})
	}
	sqlitestore.AwaitQueue(s, 101)
	cancel()
	wg.Wait()
	if n := sqlitestore.Queued(s); n > 2 {
		t.Errorf("%d writes are in the queue, and one waits", n)
	}
	release()
	waits.Wait()
}

// A caller whose context ends may use its slice again at once, whether or not the write is executed.
func TestEventsAreCopied(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{})
	events := commit("", 0, 1).Events
	landed := 0
	for i := range 200 {
		id := annals.PersistenceID(fmt.Sprintf("T|%d", i))
		ctx, cancel := context.WithCancel(t.Context())
		if i%2 == 0 {
			go cancel()
		}
		events[0].Payload = payload("1")
		_, err := s.Journal().Append(ctx, annals.Commit{ID: id, Events: events})
		events[0].Payload = payload("overwritten") // the race detector watches
		if err != nil && !annals.SafeToRetry(err) {
			t.Fatal(err)
		}
		got := numbers(t, s, id) // checks the payload
		if err == nil && len(got) != 1 {
			t.Fatalf("%s was acknowledged and is not there", id)
		}
		landed += len(got)
		cancel()
	}
	t.Log(landed, "of 200 landed")
}

// When a context ends while the write is being executed, the caller gets ErrUnknown at once. The write continues, and a retry
// finds it.
func TestContextEndsInFlight(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s := open(t, sqlitestore.Options{
		Init: executing(sqlitestore.StateTable("slow", "text TEXT")),
		StateTypes: map[string]annals.StateType[*sql.Tx]{"Slow": {Table: "slow", Columns: []string{"text"},
			Bind: func(annals.State) (annals.Columns, error) {
				once.Do(func() { close(entered); <-leave })
				return nil, nil
			}}},
	})
	ctx, cancel := context.WithCancel(t.Context())
	w := annals.StateWrite{ID: "Slow|1", Payload: payload("x"), WriteID: annals.NewWriteID()}
	answer := make(chan error, 1)
	go func() { _, err := s.States().Put(ctx, w); answer <- err }()
	<-entered
	cancel()
	err := <-answer
	wantKind(t, err, annals.ErrUnknown)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not wrap the context's error", err)
	}
	close(leave)
	r, err := s.States().Put(t.Context(), w)
	if err != nil || !r.Repeated || r.SeqNr != 1 {
		t.Errorf("the retry: %+v, %v", r, err)
	}
}
