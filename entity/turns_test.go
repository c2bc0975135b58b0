package entity_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/memstore"
)

// waiting begins a runtime whose entity waits for the turn of another owner, and has a command of ctx that is not decided.
func waiting(ctx context.Context, t *testing.T, start starter, o entity.Options) (rt *entity.Runtime[int, int, int], s *hooked, waits <-chan answer) {
	t.Helper()
	s = newHooked()
	other := start(s.mem, entity.Options{})
	rt = start(s, o)
	mustAsk(t, rt, 1, 1)
	var tries atomic.Int64
	s.write = func(ctx context.Context, _ written, next func() error) error {
		if tries.Add(1) <= 3 {
			if _, err := other.Ask(ctx, "a", 1); err != nil {
				t.Error(err)
			}
		}
		return next()
	}
	waits = ask(ctx, rt, 10)
	synctest.Wait()
	unanswered(t, waits)
	if n := tries.Load(); n != 2 {
		t.Errorf("waits after %d conflicts", n)
	}
	return rt, s, waits
}

// A command that waits for the turn of another owner can be withdrawn, and does nothing then.
func TestWithdrawnWhileAnotherOwnerWrites(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		rt, _, waits := waiting(t.Context(), t, start, entity.Options{})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := rt.Ask(ctx, "a", 100); !errors.Is(err, annals.ErrUnavailable) || time.Since(began) != time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if a := <-waits; a.reply != 14 || a.err != nil {
			t.Errorf("%d, %v, want 14", a.reply, a.err)
		}
		mustAsk(t, rt, 0, 14)
	})
}

// An entity whose last command was withdrawn during the turn of another owner is idle: it can be evicted when another entity is loaded, and Shutdown
// does not wait for it.
func TestIdleAfterTheLastCommandIsWithdrawn(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		ended, withdraw := context.WithCancel(t.Context())
		rt, s, waits := waiting(ended, t, start, entity.Options{MaxEntities: 1})
		s.heal()
		withdraw()
		if a := <-waits; !errors.Is(a.err, annals.ErrUnavailable) {
			t.Error(a.err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := rt.Ask(ctx, "b", 1); err != nil {
			t.Error(err)
		}
		if err := rt.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
}

// Shutdown waits for the turn, or ends the wait when its context ends.
func TestShutdownWhileAnotherOwnerWrites(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		rt, _, waits := waiting(t.Context(), t, start, entity.Options{})
		if err := rt.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		answered(t, waits, 14, nil)

		rt, _, waits = waiting(t.Context(), t, start, entity.Options{})
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		if err := rt.Shutdown(ended); !errors.Is(err, annals.ErrUnknown) {
			t.Error(err)
		}
		if a := <-waits; !errors.Is(a.err, annals.ErrClosed) || time.Since(began) > 0 {
			t.Errorf("%v after %v, want ErrClosed at once", a.err, time.Since(began))
		}
	})
}

// An entity without commands that leaves a pause can be evicted, and dropped for another one.
func TestPassivationWithinAPause(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		rt, s, waits := waiting(t.Context(), t, start, entity.Options{MaxEntities: 1})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		<-waits
		s.heal()
		began := time.Now()
		for time.Since(began) < 300*time.Millisecond {
			if _, err := rt.Ask(ctx, "a", 1); err != nil {
				t.Fatal(err)
			}
			if err := rt.Evict(ctx, "a", nil); err != nil {
				t.Fatal(err)
			}
			at := time.Now()
			if _, err := rt.Ask(ctx, "b", 1); err != nil || time.Since(at) > 0 {
				t.Fatalf("%v after %v", err, time.Since(at))
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// An entity with one owner makes the same requests as without turns, and loses less than a hundredth of the time. Those that declare that they
// are single owners lose nothing.
func TestOneOwnerPaysNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		for _, single := range []bool{false, true} {
			s := newHooked()
			reads := 0
			s.read = func(context.Context, annals.PersistenceID) error { reads++; return nil }
			s.write = func(_ context.Context, _ written, next func() error) error {
				time.Sleep(10 * time.Millisecond)
				return next()
			}
			rt := start(s, entity.Options{SingleOwner: single})
			const commands = 3000
			began := time.Now()
			for range commands {
				if _, err := rt.Ask(t.Context(), "a", 1); err != nil {
					t.Fatal(err)
				}
			}
			took := time.Since(began)
			if s.writes.Load() != commands || reads != 1 || s.looks.Load() > 1 { // the load of a durable state is a look
				t.Errorf("%d writes, %d reads and %d looks for %d commands", s.writes.Load(), reads, s.looks.Load(), commands)
			}
			if lost := took - commands*10*time.Millisecond; lost > took/100 || single && lost > 0 {
				t.Errorf("%v of %v were lost", lost, took)
			}
		}
	})
}

// Turns cost an entity with one owner no allocation.
func TestOneOwnerAllocatesNothingMore(t *testing.T) {
	for name, open := range kinds {
		allocations := map[bool]float64{}
		for _, single := range []bool{false, true} {
			rt, err := open(memstore.New(), entity.Options{SingleOwner: single})
			if err != nil {
				t.Fatal(err)
			}
			allocations[single] = testing.AllocsPerRun(2000, func() {
				if _, err := rt.Ask(t.Context(), "a", 1); err != nil {
					t.Error(err)
				}
			})
			if err := rt.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if allocations[false] > allocations[true] {
			t.Errorf("%s: %v allocations for a command, %v without turns", name, allocations[false], allocations[true])
		}
	}
}

// An owner that has gaps between its writes anyway does not wait.
func TestOwnerWithGapsDoesNotWait(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		rt := start(s, entity.Options{})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 200 {
					began := time.Now()
					if _, err := rt.Ask(t.Context(), "a", 1); err != nil || time.Since(began) > 0 {
						t.Errorf("%v after %v", err, time.Since(began))
					}
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
		wg.Wait()
	})
}
