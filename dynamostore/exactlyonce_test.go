package dynamostore_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// With this environment variable, which names a server, a table and a table of counters, the test binary is another process: it changes
// tasks until it is killed, and writes a line for each change that was stored.
const playChild = "ANNALS_TEST_CHILD"

// changes is for runs of all tests; make soak has 10,000.
var changes = flag.Int64("changes", 1000, "how many changes are to be counted once")

// Tasks are states whose payload is a status. A change handler counts the tasks of each status, and all changes. From Tx.Before it knows the
// status whose count decreases.
const taskIDs = 12

var taskStatuses = []string{"open", "done"}

func openTasks(ctx context.Context, c *dynamodb.Client, layout dynamostore.Layout, o own) (*dynamostore.Store, error) {
	return dynamostore.Open(ctx, c, layout, dynamostore.Options{CreateTables: true,
		StateTypes: map[string]annals.StateType[*dynamostore.Tx]{"Task": {OnChange: o.countTask}}})
}

func (o own) countTask(ctx context.Context, tx *dynamostore.Tx, s annals.State) error {
	before, was, err := tx.Before(ctx)
	if err != nil {
		return err
	}
	tx.Add(o.add("changes", 1))
	old, now := string(before.Data), string(s.Data)
	if was && old != now {
		tx.Add(o.add(old, -1))
	}
	if !s.Deleted && old != now {
		tx.Add(o.add(now, 1))
	}
	return nil
}

// changeTask writes the next revision of a random task. It returns false after a conflict.
func changeTask(ctx context.Context, r *random.Source, s annals.Store) (bool, error) {
	id := annals.NewPersistenceID("Task", fmt.Sprint(r.IntN(taskIDs)))
	last, ok, err := s.States().Get(ctx, id)
	if err != nil {
		return false, err
	}
	w := annals.StateWrite{ID: id, After: last.Revision, Payload: text(random.OneOf(r, taskStatuses...)).Payload, WriteID: annals.NewWriteID(), FirstTry: true}
	if ok && r.OneIn(8) {
		_, err = s.States().Delete(ctx, w)
	} else {
		_, err = s.States().Put(ctx, w)
	}
	if errors.Is(err, annals.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// wantTasks checks that the counts fit the states. It reads again while there are changes: requests of a killed process may still be under
// way in the server.
func (o own) wantTasks(t *testing.T, s annals.Store) (changes int) {
	t.Helper()
	for {
		changes = o.count(t, "changes")
		faults := o.taskFaults(t, s)
		if o.count(t, "changes") == changes {
			for _, fault := range faults {
				t.Error(fault)
			}
			return changes
		}
	}
}

func (o own) taskFaults(t *testing.T, s annals.Store) (faults []string) {
	t.Helper()
	want, revisions := map[string]int{}, 0
	for i := range taskIDs {
		st, ok, err := s.States().Get(t.Context(), annals.NewPersistenceID("Task", fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		revisions += int(st.Revision)
		if ok {
			want[string(st.Data)]++
		}
	}
	for _, status := range taskStatuses {
		if got := o.count(t, status); got != want[status] {
			faults = append(faults, fmt.Sprintf("%d tasks are counted as %s, there are %d", got, status, want[status]))
		}
	}
	if changes := o.count(t, "changes"); changes != revisions {
		faults = append(faults, fmt.Sprintf("%d changes are counted, %d were stored", changes, revisions))
	}
	return faults
}

// Writers of two stores race for few tasks while answers are lost. Each change that was stored is counted once, and no other is.
func TestChangesAreCountedOnce(t *testing.T) {
	t.Parallel()
	t.Run("commit", func(t *testing.T) {
		t.Parallel()
		raceForTasks(t, commit.Layout{Table: "t" + rand.Text()}, *changes)
	})
	t.Run("j5ik2o", func(t *testing.T) { // rows have no place for a WriteID: tokens tell a retry
		t.Parallel()
		raceForTasks(t, j5ik2oStates(j5ik2o.State{Tombstones: true}), *changes/10)
	})
}

func raceForTasks(t *testing.T, layout dynamostore.Layout, changes int64) {
	p, r := newProxy(t), random.New(t)
	o := newOwn(t)
	var stores []*dynamostore.Store
	for range 2 {
		c, err := connect(t.Context(), p.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		s, err := openTasks(t.Context(), c, layout, o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		stores = append(stores, s)
	}
	p.SetRule(badWeather(dynamo.Fault{Status: http.StatusServiceUnavailable}))
	var accepted, conflicts, unknown atomic.Int64
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for accepted.Load() < changes {
				switch ok, err := changeTask(t.Context(), r, stores[w%2]); {
				case errors.Is(err, annals.ErrUnknown): // four others wrote while its answer was lost
					unknown.Add(1)
				case err != nil:
					t.Error(err)
					return
				case ok:
					accepted.Add(1)
				default:
					conflicts.Add(1)
				}
			}
		})
	}
	writers.Wait()
	p.SetRule(nil)
	n, sure, unsure := int64(o.wantTasks(t, stores[0])), accepted.Load(), unknown.Load()
	if n < sure || n > sure+unsure || unsure > changes/100 || conflicts.Load() < changes/100 {
		t.Errorf("%d changes are counted, %d were accepted, %d are unknown, %d conflicts", n, sure, unsure, conflicts.Load())
	}
}

// Processes are killed in the middle of their changes while another process changes the same tasks, and requests fail.
func TestChangesAreCountedOnceUnderKill(t *testing.T) {
	t.Parallel()
	rounds, changes := 4, 100
	if testing.Short() {
		rounds, changes = 2, 60
	}
	p, r := newProxy(t), random.New(t)
	o, table := newOwn(t), "t"+rand.Text()
	s, err := openTasks(t.Context(), client(t), commit.Layout{Table: table}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	p.SetRule(badWeather(dynamo.Fault{Status: http.StatusServiceUnavailable}))
	acknowledged := 0
	for range rounds {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), playChild+"="+p.Endpoint+" "+table+" "+o.table)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; n < changes && lines.Scan(); n++ {
			acknowledged++
			if n%3 == 0 { // the child is at work: write beside it
				if ok, err := changeTask(t.Context(), r, s); err != nil { // its own answers all come
					t.Error(err)
				} else if ok {
					acknowledged++
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
	p.Close() // waits for what it still hands on
	if n := o.wantTasks(t, s); n < acknowledged {
		t.Errorf("%d changes are counted, %d were acknowledged", n, acknowledged)
	}
}

// playTasks is the main function of the other process.
func playTasks(ctx context.Context, args string) error {
	var endpoint, table string
	var o own
	if _, err := fmt.Sscan(args, &endpoint, &table, &o.table); err != nil {
		return err
	}
	c, err := connect(ctx, endpoint)
	if err != nil {
		return err
	}
	s, err := openTasks(ctx, c, commit.Layout{Table: table}, o)
	if err != nil {
		return err
	}
	failed, r := make(chan error), random.Of(uint64(os.Getpid()))
	for range 4 {
		go func() {
			for {
				ok, err := changeTask(ctx, r, s)
				if err != nil && !errors.Is(err, annals.ErrUnknown) {
					failed <- err
					return
				}
				if ok {
					fmt.Println("changed")
				}
			}
		}()
	}
	return <-failed
}

// When a state is written while a change handler runs, nothing that the handler has added is stored, even if the handler ignores the error of
// Before.
func TestHandlerOfConflict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		moveFirst, careless bool
	}{"before the handler reads": {true, false}, "after the handler has read": {false, false}, "before the handler reads, which ignores the error": {true, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, o, table := t.Context(), newOwn(t), "t"+rand.Text()
			other, err := dynamostore.Open(ctx, client(t), commit.Layout{Table: table}, dynamostore.Options{CreateTables: true})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = other.Close() }()
			s, err := dynamostore.Open(ctx, client(t), commit.Layout{Table: table}, dynamostore.Options{StateTypes: map[string]annals.StateType[*dynamostore.Tx]{
				"Task": {OnChange: func(ctx context.Context, tx *dynamostore.Tx, st annals.State) error {
					tx.Add(o.add("changes", 1))
					if st.Revision == 1 {
						return nil
					}
					if c.moveFirst {
						if err := putText(t, other, "Task|1", 1, "moved"); err != nil {
							t.Error(err)
						}
					}
					before, ok, err := tx.Before(ctx)
					if errors.Is(err, annals.ErrConflict) != c.moveFirst || ok == c.moveFirst || ok && string(before.Data) != "first" {
						t.Errorf("the state before: %+v, %v, %v", before, ok, err)
					}
					if !c.moveFirst {
						if err := putText(t, other, "Task|1", 1, "moved"); err != nil {
							t.Error(err)
						}
					}
					if c.careless {
						return nil
					}
					return err
				}}}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			if err := putText(t, s, "Task|1", 0, "first"); err != nil {
				t.Fatal(err)
			}
			err = putText(t, s, "Task|1", 1, "second")
			e := (*annals.Error)(nil)
			if !errors.Is(err, annals.ErrConflict) || !errors.As(err, &e) || e.Op != "put state" || e.After != 1 || e.Last != 2 {
				t.Errorf("%#v", err)
			}
			if st, _, err := s.States().Get(ctx, "Task|1"); err != nil || string(st.Data) != "moved" || o.count(t, "changes") != 1 {
				t.Errorf("%+v, %v, %d changes", st, err, o.count(t, "changes"))
			}
		})
	}
}

// Before works within a transaction, too, but only in a handler.
func TestBefore(t *testing.T) {
	t.Parallel()
	o := newOwn(t)
	s, err := openTasks(t.Context(), client(t), commit.Layout{Table: "t" + rand.Text()}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	w := annals.StateWrite{ID: "Task|1", Payload: text("open").Payload, WriteID: annals.NewWriteID()}
	for range 2 { // the second is the first, come again
		err = s.InTx(t.Context(), func(ctx context.Context, tx *dynamostore.Tx, in annals.Store) error {
			if _, _, err := tx.Before(ctx); !errors.Is(err, annals.ErrInvalid) {
				t.Error(err)
			}
			_, err := in.States().Put(ctx, w)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if n := o.wantTasks(t, s); n != 1 {
		t.Errorf("%d changes", n)
	}
	late := annals.StateWrite{ID: "Task|1", Payload: text("open").Payload, WriteID: annals.NewWriteID(), FirstTry: true}
	err = s.InTx(t.Context(), func(ctx context.Context, _ *dynamostore.Tx, in annals.Store) error {
		_, err := in.States().Put(ctx, late)
		return err
	})
	if !errors.Is(err, annals.ErrConflict) {
		t.Error(err)
	}
}
