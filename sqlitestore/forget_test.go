package sqlitestore_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/sqlitestore"
)

// The age counts from the last delete, whatever the times of the events.
func TestForgetAge(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	s, db := openAt(t, path, sqlitestore.Options{}), raw(t, path)
	forget := func(want bool) {
		t.Helper()
		got, err := s.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "T|1", Age: ability.ForgetAge})
		if got != want || err != nil {
			t.Errorf("forgotten %v, %v, want %v", got, err, want)
		}
	}
	mustAppend(t, s, commit("T|1", 0, 3))
	mustExec(t, db, `UPDATE event_journal SET db_timestamp = 1`)
	if err := s.Journal().DeleteTo(t.Context(), "T|1", annals.MaxSeqNr); err != nil {
		t.Fatal(err)
	}
	forget(false)
	const older = `UPDATE event_journal SET deleted = deleted - ?`
	mustExec(t, db, older, ability.ForgetAge.Microseconds())
	if _, err := s.States().Delete(t.Context(), annals.StateWrite{ID: "T|1"}); err != nil {
		t.Fatal(err)
	}
	forget(false)
	mustExec(t, db, `UPDATE durable_state SET db_timestamp = db_timestamp - ?`, ability.ForgetAge.Microseconds())
	forget(true)
	if n := count(t, db, `SELECT (SELECT count(*) FROM event_journal) + (SELECT count(*) FROM durable_state)`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// A file of the first form only says that a row is deleted, not when. Such a row counts as deleted long ago.
func TestForgetOldForm(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	s, db := openAt(t, path, sqlitestore.Options{}), raw(t, path)
	mustAppend(t, s, commit("T|1", 0, 1))
	if err := s.Journal().DeleteTo(t.Context(), "T|1", 1); err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, `UPDATE event_journal SET deleted = 1`)
	if got, err := s.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "T|1", Age: ability.ForgetAge}); !got || err != nil {
		t.Errorf("forgotten %v, %v", got, err)
	}
}

// Writes after a Forget get later times than the forgotten rows had, so that followers see them, also when another process writes.
func TestForgetKeepsClock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	s, db := openAt(t, path, sqlitestore.Options{}), raw(t, path)
	mustAppend(t, s, commit("T|other", 0, 1))
	r, err := s.States().Delete(t.Context(), annals.StateWrite{ID: "T|1"})
	if err != nil {
		t.Fatal(err)
	}
	const ahead = 3_600_000_000 // as if the clock had been set back since
	mustExec(t, db, `UPDATE durable_state SET db_timestamp = db_timestamp + ?`, ahead)
	if got, err := s.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "T|1"}); got || err != nil {
		t.Errorf("a tombstone from the future: forgotten %v, %v", got, err)
	}
	err = s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, in annals.Store) error {
		mustAppend(t, in, commit("T|2", 0, 1)) // takes a later time
		_, err := tx.ExecContext(ctx, `UPDATE durable_state SET db_timestamp = db_timestamp - ?`, 2*ahead)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Journal().DeleteTo(t.Context(), "T|2", 1); err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, `UPDATE event_journal SET deleted = 1 WHERE persistence_id = 'T|2'`)
	for _, id := range []annals.PersistenceID{"T|1", "T|2"} {
		if got, err := s.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: id}); !got || err != nil {
			t.Fatalf("%s: forgotten %v, %v", id, got, err)
		}
	}
	second := openAt(t, path, sqlitestore.Options{})
	if next := mustAppend(t, second, commit("T|3", 0, 1)); next.Time.UnixMicro() <= r.Time.UnixMicro()+ahead {
		t.Errorf("the next event is of %v, the forgotten one was of %v", next.Time, r.Time)
	}
}

// The additional columns of a state are removed with it, so that a value that must be unique can be used again.
func TestForgetCustomTable(t *testing.T) {
	t.Parallel()
	s := open(t, posts(nil))
	if _, err := put(s, "Post|1", 0, "title"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.States().Delete(t.Context(), annals.StateWrite{ID: "Post|1", After: 1}); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		if n := count(t, s.DB(), `SELECT count(*) FROM posts`); n != 1 {
			t.Fatalf("%d rows before", n)
		}
		if got, err := s.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "Post|1", DryRun: dry}); !got || err != nil {
			t.Fatalf("forgotten %v, %v", got, err)
		}
	}
	if n := count(t, s.DB(), `SELECT count(*) FROM posts`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// In a transaction, Forget is committed or undone with it.
func TestForgetInTx(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{})
	if _, err := s.States().Delete(t.Context(), annals.StateWrite{ID: "T|1"}); err != nil {
		t.Fatal(err)
	}
	err := s.InTx(t.Context(), func(ctx context.Context, _ *sql.Tx, in annals.Store) error {
		forgetter, err := ability.Of[ability.Forgetter](in)
		if err != nil {
			return err
		}
		if ok, err := forgetter.Forget(ctx, ability.Forgetting{ID: "T|1"}); !ok || err != nil {
			t.Errorf("forgotten %v, %v", ok, err)
		}
		return errOwn
	})
	if state, _, _ := s.States().Get(t.Context(), "T|1"); err == nil || state.Revision != 1 {
		t.Errorf("after the rollback: revision %d, %v", state.Revision, err)
	}
}

// A caller whose context ends while its group is being written shares no memory with the writer, which continues. The race
// detector would report it.
func TestForgetWithdrawnInFlight(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	s, release := held(t, sqlitestore.Options{
		Init: executing(sqlitestore.StateTable("slow", "text TEXT")),
		StateTypes: map[string]annals.StateType[*sql.Tx]{"Slow": {Table: "slow", Columns: []string{"text"},
			Bind: func(annals.State) (annals.Columns, error) { close(entered); <-leave; return nil, nil }}},
	})
	written, answer := make(chan error, 1), make(chan error, 1)
	go func() { _, err := put(s, "Slow|1", 0, "x"); written <- err }()
	sqlitestore.AwaitQueue(s, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		done, err := s.Unwrap().(ability.Forgetter).Forget(ctx, ability.Forgetting{ID: "T|1"})
		if done != (err == nil) {
			t.Errorf("forgotten %v, %v", done, err)
		}
		answer <- err
	}()
	sqlitestore.AwaitQueue(s, 2)
	release()
	<-entered
	cancel()
	close(leave) // before the answer is received: that would order the two goroutines, and the race detector would see no race
	if err := <-answer; err != nil {
		wantKind(t, err, annals.ErrUnknown)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}
