package cleanup_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/cleanup"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
)

// watched is a store whose DeleteTo and SkipTo first call a function of the test.
type watched struct {
	*memstore.Store
	deleting func(ctx context.Context, id annals.PersistenceID) error
}

func (s watched) Journal() annals.Journal { return watchedJournal{s.Store.Journal(), s.deleting} }

func (s watched) SkipTo(ctx context.Context, id annals.PersistenceID, after, n annals.SeqNr) error {
	if err := s.deleting(ctx, id); err != nil {
		return &annals.Error{Op: "skip", ID: id, Kind: annals.ErrUnavailable, Err: err}
	}
	return s.Store.Unwrap().(ability.Skipper).SkipTo(ctx, id, after, n)
}

type watchedJournal struct {
	annals.Journal
	deleting func(ctx context.Context, id annals.PersistenceID) error
}

func (j watchedJournal) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	if err := j.deleting(ctx, id); err != nil {
		return &annals.Error{Op: "delete events", ID: id, Kind: annals.ErrUnavailable, Err: err}
	}
	return j.Journal.DeleteTo(ctx, id, to)
}

// LastSeqNr is at least 1: each entity looks as if it had been written.
func (j watchedJournal) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	n, err := j.Journal.LastSeqNr(ctx, id)
	return max(n, 1), err
}

func many(n int) (ids []annals.PersistenceID) {
	for i := range n {
		ids = append(ids, annals.PersistenceID(fmt.Sprintf("T|%03d", i)))
	}
	return ids
}

// At most Concurrency entities are processed at the same time, and that many are; the results come in the order of the ids.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 5} {
		synctest.Test(t, func(t *testing.T) {
			var now, most atomic.Int64
			s := watched{memstore.New(), func(_ context.Context, id annals.PersistenceID) error {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				time.Sleep(time.Duration(1+id[len(id)-1]%3) * time.Second) // not in the order of the ids
				return nil
			}}
			ids := many(30)
			var order []annals.PersistenceID
			c := cleaner(t, s, cleanup.Options{Concurrency: n, Progress: func(done cleanup.Result, r cleanup.Report) {
				order = append(order, done.ID)
				if r.Last != done.ID || r.Entities != len(order) {
					t.Errorf("progress %+v with report %+v", done, r)
				}
			}})
			if _, err := c.DeleteEvents(t.Context(), cleanup.IDs(ids...), annals.MaxSeqNr); err != nil {
				t.Error(err)
			}
			if fmt.Sprint(order) != fmt.Sprint(ids) {
				t.Errorf("the order was %v", order)
			}
			if most.Load() != int64(n) {
				t.Errorf("%d at the same time, want %d", most.Load(), n)
			}
		})
	}
}

// PerSecond entities begin in each second, also in the first one.
func TestPerSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		s := watched{memstore.New(), func(context.Context, annals.PersistenceID) error {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(begun))
			return nil
		}}
		c := cleaner(t, s, cleanup.Options{PerSecond: 4})
		if _, err := c.DeleteEvents(t.Context(), cleanup.IDs(many(9)...), annals.MaxSeqNr); err != nil {
			t.Error(err)
		}
		for i, d := range at {
			if d != time.Duration(i)*250*time.Millisecond {
				t.Errorf("entity %d began after %v", i, d)
			}
		}
	})
}

// Entities that fail are listed, the others are processed, and the error contains no payload.
func TestFailures(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	s := watched{memstore.New(), func(_ context.Context, id annals.PersistenceID) error {
		if strings.HasSuffix(string(id), "7") {
			return mine
		}
		return nil
	}}
	ids := many(40)
	for _, id := range ids {
		write(t, s.Store, id, 2, 2)
	}
	got, err := cleaner(t, s, cleanup.Options{}).DeleteEntities(t.Context(), cleanup.IDs(ids...))
	want := cleanup.Report{Entities: 40, Failed: 4, Events: 72, Snapshots: 36, Last: "T|039"}
	e := (*cleanup.Error)(nil)
	if got != want || !errors.As(err, &e) || e.Report != want || e.Err != nil || len(e.Failed) != 4 || e.Op != "delete entities" {
		t.Fatalf("%+v, %#v\nwant %+v", got, err, want)
	}
	for i, f := range e.Failed {
		if want := annals.PersistenceID(fmt.Sprintf("T|0%d7", i)); f.ID != want || f.Events != 0 || f.Snapshots {
			t.Errorf("failed: %+v, want %s with nothing done", f, want)
		}
		wantShape(t, s.Store, f.ID, shape{first: 1, last: 2, snapshot: 2})
	}
	if !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, mine) {
		t.Errorf("the causes are not found in %v", err)
	}
	if text := err.Error(); !strings.Contains(text, `4 of 40`) || !strings.Contains(text, `"T|007"`) || strings.Contains(text, "secret") {
		t.Errorf("the error reads %s", text)
	}
}

// Too many failures end a run. Another run continues after its Last.
func TestMaxFailures(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	s := watched{memstore.New(), func(_ context.Context, id annals.PersistenceID) error {
		if broken.Load() && id >= "T|010" {
			return errors.New("broken")
		}
		return nil
	}}
	for _, id := range many(50) {
		write(t, s.Store, id, 1)
	}
	const workers = 3
	c := cleaner(t, s, cleanup.Options{Concurrency: workers, MaxFailures: 5})
	got, err := c.DeleteEvents(t.Context(), s.Query().IDs(t.Context(), "T", ""), annals.MaxSeqNr)
	e := (*cleanup.Error)(nil)
	if !errors.Is(err, cleanup.ErrFailures) || !errors.As(err, &e) || len(e.Failed) < 5 || len(e.Failed) > 5+workers ||
		got.Entities != 10+len(e.Failed) || got.Last != e.Failed[len(e.Failed)-1].ID {
		t.Fatalf("%+v, %v", got, err)
	}
	broken.Store(false)
	rest, err := c.DeleteEvents(t.Context(), s.Query().IDs(t.Context(), "T", got.Last), annals.MaxSeqNr)
	if err != nil || rest.Entities != 50-got.Entities {
		t.Errorf("the rest: %+v, %v", rest, err)
	}
	var again []annals.PersistenceID
	for _, f := range e.Failed {
		again = append(again, f.ID)
	}
	if _, err := c.DeleteEvents(t.Context(), cleanup.IDs(again...), annals.MaxSeqNr); err != nil {
		t.Error(err)
	}
	for _, id := range many(50) {
		wantShape(t, s.Store, id, shape{last: 1})
	}
}

// When the context ends, all entities up to Last have been processed, and no goroutine is left.
func TestCancel(t *testing.T) {
	t.Parallel()
	for _, n := range []int{50, 8} { // 8 are all begun when the context ends
		synctest.Test(t, func(t *testing.T) { cancelled(t, n) })
	}
}

func cancelled(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := watched{memstore.New(), func(ctx context.Context, id annals.PersistenceID) error {
		if id != "T|005" && id != "T|006" {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}}
	ids := many(n)
	for _, id := range ids {
		write(t, s.Store, id, 1)
	}
	time.AfterFunc(time.Minute, cancel)
	c := cleaner(t, s, cleanup.Options{})
	got, err := c.DeleteEvents(ctx, cleanup.IDs(ids...), annals.MaxSeqNr)
	e := (*cleanup.Error)(nil)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, annals.ErrUnavailable) || !errors.As(err, &e) || len(e.Failed) > 0 {
		t.Errorf("the error is %v", err)
	}
	if got.Last != "T|004" || got.Entities != 5 {
		t.Errorf("report %+v", got)
	}
}

// The pause between two entities ends when the context ends.
func TestCancelPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		got, err := cleaner(t, memstore.New(), cleanup.Options{PerSecond: 1}).DeleteEvents(ctx, cleanup.IDs(many(5)...), 1)
		if !errors.Is(err, context.DeadlineExceeded) || got.Entities != 2 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// An error of the ids ends the run after the ids before it.
func TestIDsFail(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	var ids iter.Seq2[annals.PersistenceID, error] = func(yield func(annals.PersistenceID, error) bool) {
		_ = yield("T|1", nil) && yield("T|2", nil) && yield("", mine)
	}
	got, err := cleaner(t, memstore.New(), cleanup.Options{}).DeleteEvents(t.Context(), ids, 1)
	if !errors.Is(err, mine) || got.Last != "T|2" || got.Entities != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A panic in Progress reaches the caller, and no goroutine is left.
func TestProgressPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		c := cleaner(t, memstore.New(), cleanup.Options{Progress: func(cleanup.Result, cleanup.Report) { panic("mine") }})
		_, _ = c.DeleteEvents(t.Context(), cleanup.IDs(many(20)...), 1)
	})
}

// An entity is forgotten in two runs, or in three when a snapshot arrives between them, which an owner may have loaded.
func TestForgetInTwoRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		write(t, s, "T|1", 3, 2)
		put(t, s, "T|1", 0)
		c := cleaner(t, s, cleanup.Options{})
		run := func(want cleanup.Report) {
			t.Helper()
			want.Entities, want.Last = 1, "T|1"
			if got, err := c.ForgetEntities(t.Context(), cleanup.IDs("T|1")); err != nil || got != want {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		}
		run(cleanup.Report{Events: 3, Snapshots: 1, States: 1, Waiting: 1})
		run(cleanup.Report{Waiting: 1}) // no second tombstone, no new age
		if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "T|1", SeqNr: 3, Payload: text}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ability.ForgetAge - time.Second)
		run(cleanup.Report{Snapshots: 1, Waiting: 1})
		time.Sleep(2 * time.Second)
		run(cleanup.Report{Waiting: 1})
		time.Sleep(ability.ForgetAge - 2*time.Second)
		run(cleanup.Report{Forgotten: 1})
		wantShape(t, s, "T|1", shape{})
	})
}

// An entity that is written between the steps is not forgotten.
func TestWrittenMeanwhile(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	write(t, s, "T|1", 3)
	meddling := meddled{s, func() {
		c := annals.Commit{ID: "T|1", After: 4, Events: []annals.NewEvent{{Payload: text}}}
		if _, err := s.Journal().Append(t.Context(), c); err != nil {
			t.Error(err)
		}
	}}
	_, err := cleaner(t, meddling, cleanup.Options{AtOnce: true}).ForgetEntities(t.Context(), cleanup.IDs("T|1"))
	e := (*cleanup.Error)(nil)
	if !errors.Is(err, annals.ErrConflict) || !errors.As(err, &e) || len(e.Failed) != 1 || e.Failed[0].Events != 3 || e.Failed[0].Forgotten {
		t.Errorf("%v", err)
	}
	wantShape(t, s, "T|1", shape{first: 5, last: 5})
}

// meddled is a store that calls a function of the test just before an entity is forgotten.
type meddled struct {
	*memstore.Store
	before func()
}

func (s meddled) Forget(ctx context.Context, f ability.Forgetting) (bool, error) {
	s.before()
	return s.Store.Unwrap().(ability.Forgetter).Forget(ctx, f)
}

// A snapshot of an entity that has begun again during the run stays: its events may be deleted already. One of lost events does not.
func TestSnapshotMeanwhile(t *testing.T) {
	t.Parallel()
	for begins, want := range map[bool]shape{true: {last: 5, snapshot: 5}, false: {last: 5}} {
		s := memstore.New()
		write(t, s, "T|1", 3, 2)
		again := &faulty.Store{Store: s, Around: func(ctx context.Context, c *faulty.Call, run func() error) error {
			if c.Op != "load snapshot" {
				return run()
			}
			if begins {
				if _, err := s.Journal().Append(ctx, annals.Commit{ID: "T|1", After: 4, Events: []annals.NewEvent{{Payload: text}}}); err != nil {
					t.Error(err)
				}
			}
			if err := s.Snapshots().Save(ctx, annals.Snapshot{ID: "T|1", SeqNr: 5, Payload: text}); err != nil {
				t.Error(err)
			}
			if err := s.Journal().DeleteTo(ctx, "T|1", annals.MaxSeqNr); err != nil {
				t.Error(err)
			}
			return run()
		}}
		_, err := cleaner(t, faulty.Able{Store: again}, cleanup.Options{}).DeleteEntities(t.Context(), cleanup.IDs("T|1"))
		if errors.Is(err, annals.ErrConflict) != begins || err != nil && !begins {
			t.Errorf("begins %t: %v", begins, err)
		}
		wantShape(t, s, "T|1", want)
	}
}

// A runtime that loads an entity while it is deleted does not go on with a part of what was there.
func TestLoadedMeanwhile(t *testing.T) {
	t.Parallel()
	b := behavior.EventSourced[int, int, int, int]{Type: "T", SnapshotEvery: 2,
		Decide: func(_, n int) ([]int, error) { return []int{n}[min(1-n, 1):], nil }, // 0 adds nothing
		Evolve: func(sum, n int) int { return sum + n },
		Reply:  func(sum, _ int, _ []int) int { return sum },
	}
	for _, op := range []string{"replay", "last number", "load snapshot", "delete snapshots"} {
		memory := memstore.New()
		var hosts [3]*entity.Runtime[int, int, int]
		for i := range hosts {
			h, err := entity.New(memory, b, entity.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = h.Shutdown(t.Context()) }()
			hosts[i] = h
		}
		ask := func(h *entity.Runtime[int, int, int], add, want int) {
			t.Helper()
			if sum, err := h.Ask(t.Context(), "1", add); err != nil || sum != want {
				t.Errorf("before %s: %d, %v, want %d", op, sum, err, want)
			}
		}
		for sum := range 3 {
			ask(hosts[0], 1, sum+1)
		}
		if err := hosts[0].Shutdown(t.Context()); err != nil { // which waits until the snapshot is saved
			t.Fatal(err)
		}
		begun := false
		s := faulty.Able{Store: &faulty.Store{Store: memory, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
			if c.Op == op && !begun {
				begun = true
				_, _ = hosts[1].Ask(t.Context(), "1", 0)
			}
			return run()
		}}}
		if _, err := cleaner(t, s, cleanup.Options{}).DeleteEntities(t.Context(), cleanup.IDs("T|1")); err != nil {
			t.Error(err)
		}
		ask(hosts[1], 1, 1)
		ask(hosts[2], 0, 1)
	}
}

// A cleaner leaves the records of the library alone.
func TestIDsOfTheLibrary(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	id := annals.NewPersistenceID("annals.projection", "p")
	if _, err := s.States().Put(t.Context(), annals.StateWrite{ID: id, Payload: text, WriteID: annals.NewWriteID()}); err != nil {
		t.Fatal(err)
	}
	c, err := cleanup.New(s, cleanup.Options{})
	if err != nil {
		t.Fatal(err)
	}
	report, err := c.DeleteEntities(t.Context(), cleanup.IDs(id, "T|1"))
	if failed := (*cleanup.Error)(nil); !errors.As(err, &failed) || report.Failed != 1 || report.Entities != 2 || !errors.Is(failed.Failed[0].Err, annals.ErrInvalid) ||
		!strings.Contains(failed.Failed[0].Err.Error(), `delete entities "annals.projection|p"`) {
		t.Errorf("got %+v, %v", report, err)
	}
	if _, there, err := s.States().Get(t.Context(), id); err != nil || !there {
		t.Errorf("the record is there: %t, %v", there, err)
	}
}
