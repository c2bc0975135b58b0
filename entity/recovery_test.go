package entity_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
)

// Guards the ErrCorrupt of sourced.replay and durable.Load.
func TestUnreadableRecordsAreCorrupt(t *testing.T) {
	t.Parallel()
	s := newHooked()
	old, _ := entity.New(s, account, entity.Options{})
	oldStates, _ := entity.NewState(s, accountState, entity.Options{})
	if _, err := old.Ask(t.Context(), "events", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := oldStates.Ask(t.Context(), "state", 1); err != nil {
		t.Fatal(err)
	}
	if err := old.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}

	events := account
	events.Events = codec.JSON[int]("moved/2")
	states := accountState
	states.States = codec.JSON[int]("balance/2")
	newEvents, _ := entity.New(s, events, entity.Options{})
	newStates, _ := entity.NewState(s, states, entity.Options{})
	for id, rt := range map[string]*entity.Runtime[int, int, int]{"events": newEvents, "state": newStates} {
		for range 2 {
			_, err := rt.Ask(t.Context(), id, 1)
			unknown := (*codec.UnknownManifestError)(nil)
			if !errors.Is(err, annals.ErrCorrupt) || !errors.As(err, &unknown) {
				t.Errorf("%s: %v, want corrupt with the codec's error", id, err)
			}
		}
	}
}

// truncating is a store whose first recoveries are overtaken after the first event.
type truncating struct {
	*hooked
	times int
}

func (s *truncating) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	if s.times == 0 {
		return ability.Recover(ctx, s.hooked, id, snapshot, event)
	}
	s.times--
	for e, err := range s.Journal().Replay(ctx, id, 1, 1) {
		if err := errors.Join(err, event(e)); err != nil {
			return 0, err
		}
	}
	return 0, &annals.Error{Op: "recover", ID: id, Kind: annals.ErrTruncated}
}

// When a delete of another owner interrupts a recovery, the entity is read again from the beginning.
func TestTruncatedRecoveryStartsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newHooked()
		rt, _ := entity.New(s, account, entity.Options{})
		for i := range 5 {
			mustAsk(t, rt, 1, i+1)
		}
		overtaken := &truncating{s, 3}
		rt, _ = entity.New(overtaken, account, entity.Options{})
		mustAsk(t, rt, 1, 6)
		if overtaken.times != 0 {
			t.Errorf("%d truncated recoveries were not met", overtaken.times)
		}

		rt, _ = entity.New(&truncating{s, 1 << 30}, account, entity.Options{RecoveryTimeout: 2 * time.Second})
		began := time.Now()
		if _, err := rt.Ask(t.Context(), "a", 1); !errors.Is(err, annals.ErrTruncated) || time.Since(began) > 3*time.Second {
			t.Errorf("%v after %v, want truncated after 2 s", err, time.Since(began))
		}
	})
}

// A recovery that fails fails the commands that wait. The next command starts another recovery.
func TestFailedRecoveryIsTriedAgain(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		down := errors.New("connection refused")
		s.read = func(context.Context, annals.PersistenceID) error { return down }
		rt := start(s, entity.Options{})
		if _, err := rt.Ask(t.Context(), "a", 1); !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, down) {
			t.Errorf("%v, want unavailable", err)
		}
		s.read = nil
		mustAsk(t, rt, 1, 1)
	})
}

// Guards the WithTimeout in entity.load.
func TestRecoveryTakesNoLongerThanItMay(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		s.read = func(ctx context.Context, _ annals.PersistenceID) error {
			<-ctx.Done()
			return ctx.Err()
		}
		rt := start(s, entity.Options{RecoveryTimeout: time.Second})
		if _, err := rt.Ask(t.Context(), "a", 1); !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want unavailable", err)
		}
	})
}

// The cases J-E1 to J-E6 of the Akka and Pekko plugins: what a new incarnation sees of batches, single events and deletes.
func TestNewIncarnation(t *testing.T) {
	t.Parallel()
	b := behavior.EventSourced[int, int, []int, []int]{
		Type: "Numbers",
		Decide: func(s []int, n int) (events []int, err error) {
			for range n {
				events = append(events, 0)
			}
			return events, nil
		},
		Evolve: func(s []int, _ int) []int { return append(s, len(s)+1) },
		Reply:  func(s []int, _ int, _ []int) []int { return append([]int{}, s...) },
	}
	for name, c := range map[string]struct {
		persist []int
		delete  []annals.SeqNr
		left    []int // after each delete, or in all
	}{
		"J-E1": {persist: []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, left: []int{16}},
		"J-E2": {persist: []int{16}, delete: []annals.SeqNr{3, 7}, left: []int{13, 9}},
		"J-E3": {persist: []int{6}, left: []int{6}},
		"J-E4": {persist: []int{3, 3}, left: []int{6}},
		"J-E5": {persist: []int{4}, left: []int{4}},
		"J-E6": {persist: []int{1, 1, 1, 1, 1, 1}, delete: []annals.SeqNr{5}, left: []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newHooked()
			rt, _ := entity.New(s, b, entity.Options{})
			total := annals.SeqNr(0)
			for _, n := range c.persist {
				if _, err := rt.Ask(t.Context(), "a", n); err != nil {
					t.Fatal(err)
				}
				total += annals.SeqNr(n)
			}
			for i, want := range c.left {
				if i < len(c.delete) {
					if err := s.Journal().DeleteTo(t.Context(), "Numbers|a", c.delete[i]); err != nil {
						t.Fatal(err)
					}
				}
				rt, _ = entity.New(s, b, entity.Options{})
				if got, err := rt.Ask(t.Context(), "a", 0); len(got) != want || err != nil {
					t.Errorf("%d events recovered, %v, want %d", len(got), err, want)
				}
			}
			if _, err := rt.Ask(t.Context(), "a", 1); err != nil {
				t.Fatal(err)
			}
			if last, err := s.Journal().LastSeqNr(t.Context(), "Numbers|a"); last != total+1 || err != nil {
				t.Errorf("the next event has number %d, %v, want %d", last, err, total+1)
			}
		})
	}
}
