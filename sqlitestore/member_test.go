package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/sqlitestore"
)

// appending is the function of a transaction that appends c and then calls fn.
func appending(t *testing.T, c annals.Commit, fn func(ctx context.Context) error) func(ctx context.Context, in annals.Store) error {
	return func(ctx context.Context, in annals.Store) error {
		mustAppend(t, in, c)
		return fn(ctx)
	}
}

// Transactions without writes of the caller's own share the COMMIT with each other and with other writes. One that fails, panics, ends its goroutine, or
// does not return when its context ends, leaves the others alone.
func TestTransactionsShareACommit(t *testing.T) {
	t.Parallel()
	s, release := held(t, sqlitestore.Options{Checksums: true})
	sqlitestore.LongGroups(s)
	var wg sync.WaitGroup
	queued := 0
	do := func(fn func()) {
		wg.Go(fn)
		queued++
		sqlitestore.AwaitQueue(s, queued)
	}
	atomically := func(want error, ctx context.Context, fn func(ctx context.Context, in annals.Store) error) {
		do(func() {
			if err := ability.Atomically(ctx, s, fn); !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("got %v, want %v", err, want)
			}
		})
	}
	none := func(context.Context) error { return nil }
	for i := range 20 {
		atomically(nil, t.Context(), appending(t, commit(annals.PersistenceID(fmt.Sprintf("T|%d", i)), 0, 2), none))
	}
	do(func() { mustAppend(t, s, commit("T|plain", 0, 2)) })
	atomically(errOwn, t.Context(), appending(t, commit("T|fails", 0, 2), func(context.Context) error { return errOwn }))
	atomically(nil, t.Context(), func(ctx context.Context, in annals.Store) error { // it reads what those before it have written
		if last, err := in.Journal().LastSeqNr(ctx, "T|3"); last != 2 || err != nil {
			t.Errorf("the last number is %d, %v", last, err)
		}
		_, err := in.Journal().Append(ctx, commit("T|3", 0, 3))
		wantKind(t, err, annals.ErrConflict)
		mustAppend(t, in, commit("T|goes on", 0, 1))
		return nil
	})
	do(func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not come through")
			}
		}()
		_ = ability.Atomically(t.Context(), s, appending(t, commit("T|panics", 0, 1), func(context.Context) error { panic("on purpose") }))
	})
	do(func() {
		_ = ability.Atomically(t.Context(), s, appending(t, commit("T|exits", 0, 1), func(context.Context) error { runtime.Goexit(); return nil }))
	})
	ctx, cancel := context.WithCancel(t.Context())
	leave := make(chan struct{})
	atomically(annals.ErrUnavailable, ctx, func(ctx context.Context, in annals.Store) error {
		mustAppend(t, in, commit("T|hangs", 0, 2))
		cancel()
		<-leave
		_, err := in.Journal().Append(context.WithoutCancel(ctx), commit("T|hangs", 2, 1))
		wantKind(t, err, annals.ErrUnavailable)
		_, err = in.Journal().LastSeqNr(context.WithoutCancel(ctx), "T|hangs")
		wantKind(t, err, annals.ErrUnavailable)
		return nil
	})
	atomically(nil, t.Context(), appending(t, commit("T|last", 0, 1), func(context.Context) error { close(leave); return nil })) // others write meanwhile
	release()
	wg.Wait()
	if groups, writes := sqlitestore.Commits(s); groups > 2 || writes != int64(queued) { // the caller of the append may have been the first one
		t.Errorf("%d commits for %d writes, want at most 2 for %d", groups, writes, queued)
	}
	for id, want := range map[annals.PersistenceID]int{"T|0": 2, "T|3": 2, "T|19": 2, "T|plain": 2, "T|goes on": 1, "T|last": 1, "T|fails": 0, "T|panics": 0, "T|exits": 0, "T|hangs": 0} {
		if got := numbers(t, s, id); len(got) != want {
			t.Errorf("%s has %v, want %d events", id, got, want)
		}
	}
}

// When SQLite rolls a group back, the functions that have run are not run again: their callers get ErrUnavailable, and nothing of them is stored. Other
// writes are executed again.
func TestGroupOfTransactionsIsRolledBack(t *testing.T) {
	t.Parallel()
	s, release := held(t, sqlitestore.Options{Init: executing(`PRAGMA max_page_count = 64`)})
	sqlitestore.LongGroups(s)
	large := annals.Commit{ID: "T|large", Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1, Data: make([]byte, 1<<20)}}}}
	var wg sync.WaitGroup
	queued := 0
	runs := map[int]int{}
	for i, c := range []annals.Commit{commit("T|0", 0, 2), large, commit("T|2", 0, 2)} {
		wg.Go(func() {
			err := ability.Atomically(t.Context(), s, func(ctx context.Context, in annals.Store) error {
				runs[i]++ // one after the other
				_, err := in.Journal().Append(ctx, c)
				if i == 1 {
					wantKind(t, err, annals.ErrUnavailable)
					return nil // although it has failed
				}
				return err
			})
			if i < 2 {
				wantKind(t, err, annals.ErrUnavailable)
			} else if err != nil && !errors.Is(err, annals.ErrUnavailable) {
				t.Error(err)
			}
			if stored := len(numbers(t, s, c.ID)); (err == nil) != (stored == len(c.Events)) || err != nil && stored > 0 {
				t.Errorf("transaction %d ended with %v, and %d events are stored", i, err, stored)
			}
		})
		queued++
		sqlitestore.AwaitQueue(s, queued)
	}
	wg.Go(func() { mustAppend(t, s, commit("T|plain", 0, 2)) })
	sqlitestore.AwaitQueue(s, queued+1)
	release()
	wg.Wait()
	for i, n := range runs {
		if n > 1 {
			t.Errorf("function %d has run %d times", i, n)
		}
	}
	if got := numbers(t, s, "T|plain"); len(got) != 2 {
		t.Errorf("the append left %v", got)
	}
	if err := ability.Atomically(t.Context(), s, appending(t, commit("T|0", 0, 2), func(context.Context) error { return nil })); err != nil {
		t.Error(err)
	}
}

// When SQLite rolls a group back while a function runs, as after a failed read, nothing that the function writes afterwards is kept.
func TestTransactionIsRolledBackInside(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{})
	for i, write := range []func(ctx context.Context, in annals.Store) error{
		func(ctx context.Context, in annals.Store) error {
			_, err := in.Journal().Append(ctx, commit("T|2", 0, 1))
			return err
		},
		func(ctx context.Context, in annals.Store) error { return in.Journal().DeleteTo(ctx, "T|0", 1) },
	} {
		mustAppend(t, s, commit("T|0", annals.SeqNr(i), 1))
		err := ability.Atomically(t.Context(), s, func(ctx context.Context, in annals.Store) error {
			mustAppend(t, in, commit("T|1", 0, 1))
			sqlitestore.RollBack(s)
			wantKind(t, write(ctx, in), annals.ErrUnavailable)
			return nil
		})
		wantKind(t, err, annals.ErrUnavailable)
		for id, want := range map[annals.PersistenceID]int{"T|0": i + 1, "T|1": 0, "T|2": 0} {
			if got := numbers(t, s, id); len(got) != want {
				t.Errorf("%s has %v, want %d events", id, got, want)
			}
		}
	}
}

// A function may wait for a transaction that has begun before it was called: both have a COMMIT of their own.
func TestTransactionWaitsForAnother(t *testing.T) {
	t.Parallel()
	s, release := held(t, sqlitestore.Options{})
	first := make(chan error, 1)
	second := make(chan error, 1)
	go func() {
		first <- ability.Atomically(t.Context(), s, appending(t, commit("T|1", 0, 1), func(context.Context) error {
			go func() {
				second <- ability.Atomically(t.Context(), s, appending(t, commit("T|2", 0, 1), func(ctx context.Context) error { return <-first }))
			}()
			sqlitestore.AwaitQueue(s, 2) // the first one is in the queue still, though it was taken
			return nil
		}))
	}()
	sqlitestore.AwaitQueue(s, 1)
	release()
	if err := <-second; err != nil {
		t.Error(err)
	}
	if groups, writes := sqlitestore.Commits(s); groups != 2 || writes != 2 {
		t.Errorf("%d commits for %d writes", groups, writes)
	}
}

// A function goes on after a write that a rule of the program's own refuses: nothing of that write is kept.
func TestTransactionGoesOnAfterConstraint(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{Init: executing(`CREATE TRIGGER rule BEFORE INSERT ON event_journal WHEN new.persistence_id = 'T|refused' AND new.seq_nr % 2 = 0 BEGIN SELECT raise(ABORT, 'no'); END`)})
	err := ability.Atomically(t.Context(), s, func(ctx context.Context, in annals.Store) error {
		_, err := in.Journal().Append(ctx, commit("T|refused", 0, 2))
		wantKind(t, err, annals.ErrConstraint)
		mustAppend(t, in, commit("T|refused", 0, 1))
		_, err = in.Journal().Append(ctx, commit("T|refused", 1, 1))
		wantKind(t, err, annals.ErrConstraint)
		mustAppend(t, in, commit("T|1", 0, 2))
		return nil
	})
	if refused, other := numbers(t, s, "T|refused"), numbers(t, s, "T|1"); err != nil || len(refused) != 1 || len(other) != 2 {
		t.Errorf("%v, %v and %v", err, refused, other)
	}
}

// Transactions that are withdrawn while another process writes do not hold up those that come later, and one that waits takes along the writes of others.
func TestTransactionsWithdrawn(t *testing.T) {
	t.Parallel()
	s, release := held(t, sqlitestore.Options{})
	var wg sync.WaitGroup
	for i := range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			err := ability.Atomically(ctx, s, func(context.Context, annals.Store) error { t.Error("it was executed"); return nil })
			wantKind(t, err, annals.ErrUnavailable)
		})
		for range i % 3 {
			runtime.Gosched()
		}
		cancel()
	}
	wg.Wait()
	for i := range 2 {
		wg.Go(func() { mustAppend(t, s, commit(annals.PersistenceID(fmt.Sprintf("T|%d", i)), 0, 1)) })
		wg.Go(func() {
			err := ability.Atomically(t.Context(), s, func(_ context.Context, in annals.Store) error {
				mustAppend(t, in, commit(annals.PersistenceID(fmt.Sprintf("T|in %d", i)), 0, 1))
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	release()
	wg.Wait()
}

// A transaction begins although more writers than a group takes write all the time.
func TestTransactionBesideManyWriters(t *testing.T) {
	t.Parallel()
	s, release := held(t, sqlitestore.Options{})
	const writers, rounds = 1100, 20
	var wg sync.WaitGroup
	var begun, late atomic.Bool
	for w := range writers {
		wg.Go(func() {
			for i := annals.SeqNr(0); !begun.Load() && !late.Load(); i++ {
				mustAppend(t, s, commit(annals.PersistenceID(fmt.Sprintf("T|%d", w)), i, 1))
				late.Store(late.Load() || i == rounds)
			}
		})
	}
	sqlitestore.AwaitQueue(s, writers)
	wg.Go(func() {
		err := ability.Atomically(t.Context(), s, func(context.Context, annals.Store) error { begun.Store(true); return nil })
		if err != nil || late.Load() {
			t.Errorf("the transaction ended with %v after each writer had written %d times: %v", err, rounds, late.Load())
		}
	})
	sqlitestore.AwaitQueue(s, writers+1)
	release()
	wg.Wait()
}
