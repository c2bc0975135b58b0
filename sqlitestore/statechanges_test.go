package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/sqlitestore"
)

// tasks is a state type whose payload is a status, "open" or "done". A handler counts the tasks of each status, and all changes;
// it refuses the status "refused" after it has written. The column owner is unique; points is an integer and never NULL.
func tasks(bind func(annals.State) (annals.Columns, error)) sqlitestore.Options {
	o := sqlitestore.Options{
		Init: executing(
			sqlitestore.StateTable("tasks", "owner TEXT UNIQUE", "points INTEGER NOT NULL DEFAULT 0 CHECK (typeof(points) = 'integer')", "counted TEXT"),
			`CREATE TABLE IF NOT EXISTS task_count (status TEXT PRIMARY KEY, n INTEGER NOT NULL)`,
			`INSERT INTO task_count VALUES ('open', 0), ('done', 0), ('changes', 0) ON CONFLICT DO NOTHING`,
		),
	}
	t := annals.StateType[*sql.Tx]{Table: "tasks", OnChange: countTask}
	if bind != nil {
		t.Columns, t.Bind = []string{"owner", "points"}, bind
	}
	o.StateTypes = map[string]annals.StateType[*sql.Tx]{"Task": t}
	return o
}

func countTask(ctx context.Context, tx *sql.Tx, s annals.State) error {
	const (
		count = `UPDATE task_count SET n = n + (status IN ('changes', ?1)) - (status IS (SELECT counted FROM tasks WHERE persistence_id = ?2))`
		mark  = `UPDATE tasks SET counted = nullif(?1, '') WHERE persistence_id = ?2`
	)
	for _, text := range []string{count, mark} {
		if _, err := tx.ExecContext(ctx, text, string(s.Data), string(s.ID)); err != nil {
			return err
		}
	}
	if string(s.Data) == "refused" {
		return errOwn
	}
	return nil
}

func wantTasks(t *testing.T, s *sqlitestore.Store, changes int) {
	t.Helper()
	const right = `SELECT count(*) FROM task_count WHERE status <> 'changes' AND n <>
		(SELECT count(*) FROM tasks WHERE state_ser_id <> 0 AND CAST(state_payload AS TEXT) = status)`
	if n := count(t, s.DB(), right); n != 0 {
		t.Errorf("%d counts are not those of the states", n)
	}
	for _, text := range []string{`SELECT n FROM task_count WHERE status = 'changes'`, `SELECT ifnull(sum(revision), 0) FROM tasks`} {
		if n := count(t, s.DB(), text); n != changes {
			t.Errorf("%s: %d, want %d changes", text, n, changes)
		}
	}
}

// Ten thousand changes, fewer under the race detector, compete for few entities, alone and in transactions of several. Some
// conflict, and some are refused by the handler after it has written. Each accepted change is counted once, and no other.
func TestManyChanges(t *testing.T) {
	t.Parallel()
	const workers, entities, want = 8, 16, changes
	s, r := open(t, tasks(nil)), random.New(t)
	var accepted, conflicts, refused atomic.Int64
	change := func(s annals.Store) error {
		id := annals.PersistenceID(fmt.Sprintf("Task|%d", r.IntN(entities)))
		last, there, err := s.States().Get(t.Context(), id)
		if err != nil {
			return err
		}
		w := annals.StateWrite{ID: id, After: last.Revision, WriteID: annals.NewWriteID(), FirstTry: true,
			Payload: payload(random.OneOf(r, "open", "done", "refused"))}
		if there && r.OneIn(8) {
			_, err = s.States().Delete(t.Context(), w)
		} else {
			_, err = s.States().Put(t.Context(), w)
		}
		return err
	}
	several := func(ctx context.Context, _ *sql.Tx, in annals.Store) error {
		for range 50 {
			switch err := change(in); {
			case err == nil:
				accepted.Add(1)
			case errors.Is(err, errOwn):
				refused.Add(1)
			default:
				return err
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := 0; accepted.Load() < want; i++ {
				var err error
				if i%4 == 0 {
					err = s.InTx(t.Context(), several)
				} else if err = change(s); err == nil {
					accepted.Add(1)
				}
				switch {
				case errors.Is(err, annals.ErrConflict):
					conflicts.Add(1)
				case errors.Is(err, errOwn):
					refused.Add(1)
				case err != nil:
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if conflicts.Load() < 10 || refused.Load() < 10 {
		t.Errorf("%d conflicts, %d refusals: that is no race", conflicts.Load(), refused.Load())
	}
	wantTasks(t, s, int(accepted.Load()))
}

// A write that the user's columns refuse is ErrConstraint, not a conflict: nothing is written, and no handler has run.
func TestColumnsRefuse(t *testing.T) {
	t.Parallel()
	var next annals.Columns
	s := open(t, tasks(func(annals.State) (annals.Columns, error) { return next, nil }))
	next = annals.Columns{"owner": "gertrud", "points": int64(1)}
	if _, err := put(s, "Task|1", 0, "open"); err != nil {
		t.Fatal(err)
	}
	for name, columns := range map[string]annals.Columns{
		"a value that is taken": {"owner": "gertrud"},
		"another type":          {"points": "many"},
		"NULL where it may not": {"points": nil},
	} {
		next = columns
		for range 2 { // a retry changes nothing
			_, err := put(s, "Task|2", 0, "open")
			wantKind(t, err, annals.ErrConstraint)
			if errors.Is(err, annals.ErrConflict) || annals.SafeToRetry(err) || strings.Contains(fmt.Sprint(err), "gertrud") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	wantTasks(t, s, 1)
	next = annals.Columns{"owner": "bob"}
	if _, err := put(s, "Task|2", 0, "done"); err != nil {
		t.Error(err)
	}
	wantTasks(t, s, 2)
}

// When a column, or a table that the handler needs, is dropped while the store is open, only the writes that need it fail.
func TestColumnGoes(t *testing.T) {
	t.Parallel()
	s := open(t, tasks(func(annals.State) (annals.Columns, error) { return annals.Columns{"points": int64(1)}, nil }))
	if _, err := put(s, "Task|1", 0, "open"); err != nil {
		t.Fatal(err)
	}
	db := raw(t, sqlitestore.Path(s))
	for _, text := range []string{`ALTER TABLE tasks DROP COLUMN points`, `DROP TABLE task_count`} {
		mustExec(t, db, text)
		_, err := put(s, "Task|1", 1, "done")
		wantKind(t, err, annals.ErrUnavailable)
	}
	mustAppend(t, s, commit("T|1", 0, 1))
}

// Wrong writes are refused before a handler runs.
func TestWrongStateWrites(t *testing.T) {
	t.Parallel()
	s := open(t, tasks(nil))
	if _, err := put(s, "Task|1", 0, "open"); err != nil {
		t.Fatal(err)
	}
	for after, kind := range map[annals.SeqNr]error{
		0: annals.ErrConflict, 2: annals.ErrConflict, -1: annals.ErrInvalid, annals.MaxSeqNr: annals.ErrInvalid,
	} {
		_, err := put(s, "Task|1", after, "done")
		wantKind(t, err, kind)
		_, err = s.States().Delete(t.Context(), annals.StateWrite{ID: "Task|1", After: after})
		wantKind(t, err, kind)
	}
	_, err := put(s, "Task|1", 1, strings.Repeat("x", s.Capabilities().Limits.MaxBytes+1))
	wantKind(t, err, annals.ErrTooLarge)
	wantTasks(t, s, 1)
}

// The change of a handler that runs longer than the caller's context is undone, whether or not the handler notices.
func TestHandlerDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := tasks(nil)
		task := o.StateTypes["Task"]
		task.OnChange = func(ctx context.Context, tx *sql.Tx, s annals.State) error {
			if err := countTask(ctx, tx, s); err != nil {
				return err
			}
			switch string(s.Data) {
			case "notices":
				<-ctx.Done()
				return ctx.Err()
			case "sleeps":
				time.Sleep(time.Hour)
			case "goes on":
				<-ctx.Done()
				_, err := tx.ExecContext(ctx, `UPDATE task_count SET n = 7`)
				return err
			}
			return nil
		}
		o.StateTypes["Task"] = task
		s := open(t, o)
		for _, text := range []string{"notices", "sleeps", "goes on"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := s.States().Put(ctx, annals.StateWrite{ID: "Task|1", Payload: payload(text)})
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", text, err)
			}
		}
		wantTasks(t, s, 0)
		if _, err := put(s, "Task|1", 0, "open"); err != nil {
			t.Error(err)
		}
		wantTasks(t, s, 1)
	})
}
