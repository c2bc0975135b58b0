package entity_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/entity"
)

// Guards Runtime.sweep.
func TestIdleEntitiesPassivate(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		rt := start(newHooked(), entity.Options{IdleAfter: time.Minute})
		for i := range 10 {
			if _, err := rt.Ask(t.Context(), strconv.Itoa(i), 1); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if n := rt.Len(); n != 10 {
			t.Errorf("%d entities in memory, want 10", n)
		}
		time.Sleep(40 * time.Second)
		mustAskID(t, rt, "0", 1, 2) // not idle for long
		time.Sleep(15*time.Second + time.Millisecond)
		if n := rt.Len(); n != 5 { // 0 and those of the last five seconds
			t.Errorf("%d entities in memory, want 5", n)
		}
		time.Sleep(2 * time.Minute)
		if s := rt.Stats(); s.Entities != 0 || s.Evicted != 10 || s.Pending != 0 {
			t.Errorf("%+v, want that all 10 entities were dropped", s)
		}
		mustAskID(t, rt, "0", 1, 3)
	})
}

func mustAskID(t *testing.T, rt asks, id string, amount, want int) {
	t.Helper()
	if got, err := rt.Ask(t.Context(), id, amount); got != want || err != nil {
		t.Fatalf("%s: %d, %v, want %d", id, got, err, want)
	}
}

// The entity that has been idle longest is dropped for another.
func TestMemoryIsBounded(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		reads := map[annals.PersistenceID]int{}
		s.read = func(_ context.Context, id annals.PersistenceID) error { reads[id]++; return nil }
		rt := start(s, entity.Options{MaxEntities: 3})
		for _, id := range []string{"a", "b", "c", "a", "d", "a", "b"} {
			if _, err := rt.Ask(t.Context(), id, 1); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
			if n := rt.Len(); n > 3 {
				t.Errorf("%d entities in memory", n)
			}
		}
		// d took the place of b, the longest idle, and b that of c.
		for id, want := range map[annals.PersistenceID]int{"Account|a": 1, "Account|b": 2, "Account|c": 1, "Account|d": 1} {
			if reads[id] != want {
				t.Errorf("%s was loaded %d times, want %d", id, reads[id], want)
			}
		}
	})
}

// While all entities in memory are busy, commands to others wait until their contexts end.
func TestCommandsWaitForMemory(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		g := gated(s)
		rt := start(s, entity.Options{MaxEntities: 1})
		first := ask(t.Context(), rt, 1)
		synctest.Wait()
		answers := make(chan answer, 3)
		for range 3 {
			go func() {
				reply, err := rt.Ask(t.Context(), "b", 1)
				answers <- answer{reply, err}
			}()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := rt.Ask(ctx, "c", 1); !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want that nothing was done", err)
		}
		unanswered(t, answers)
		same := ask(t.Context(), rt, 1) // a is in memory
		synctest.Wait()
		close(g.open)
		answered(t, first, 1, nil)
		answered(t, same, 2, nil)
		replies := map[int]bool{}
		for range 3 {
			a := <-answers
			if a.err != nil {
				t.Error(a.err)
			}
			replies[a.reply] = true
		}
		if !replies[1] || !replies[2] || !replies[3] {
			t.Errorf("b replied %v", replies)
		}
		mustAskID(t, rt, "c", 0, 0)
		if n := rt.Len(); n != 1 {
			t.Errorf("%d entities in memory", n)
		}
	})
}

// Invalid options, behaviors and ids are refused.
func TestBadInputIsRefused(t *testing.T) {
	t.Parallel()
	s := newHooked()
	s.caps.Limits.MaxIDBytes = 20
	rt, _ := entity.New(s, account, entity.Options{})
	for _, id := range []string{"", "a\x00b", "a\xff", "twelve bytes and more"} {
		if _, err := rt.Ask(t.Context(), id, 1); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("id %q: %v, want invalid", id, err)
		}
	}
	if rt.Len() != 0 || s.writes.Load() != 0 {
		t.Error("an entity with a bad id was activated")
	}

	bad := account
	bad.Type, bad.Decide = "A|B", nil
	_, err := entity.New(driver.Unsupported(), bad, entity.Options{MaxBatch: -1, IdleAfter: -1, DeleteEvents: true})
	if !errors.Is(err, annals.ErrInvalid) || !errors.Is(err, annals.ErrUnsupported) {
		t.Errorf("%v, want invalid and not supported", err)
	}
	for _, what := range []string{"Type", "Decide", "MaxBatch", "IdleAfter", "DeleteEvents", "does not claim Events"} {
		if err != nil && !contains(err, what) {
			t.Errorf("%v does not mention %s", err, what)
		}
	}
	snapshots := account
	snapshots.SnapshotEvery = 10
	s.caps.Snapshots = false
	if _, err := entity.New(s, snapshots, entity.Options{}); !errors.Is(err, annals.ErrUnsupported) {
		t.Errorf("%v, want not supported without snapshots", err)
	}
	if _, err := entity.NewState(driver.Unsupported(), accountState, entity.Options{}); !errors.Is(err, annals.ErrUnsupported) {
		t.Errorf("%v, want not supported without states", err)
	}
	if _, err := entity.New(nil, account, entity.Options{}); !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("%v, want invalid without a store", err)
	}
}
