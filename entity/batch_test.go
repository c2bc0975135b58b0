package entity_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
)

type starter = func(s annals.Store, o entity.Options) *entity.Runtime[int, int, int]

// gate holds the writes of a store until they are let through.
type gate struct{ open chan struct{} }

func gated(s *hooked) gate {
	g := gate{make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write = func(_ context.Context, _ written, next func() error) error {
		<-g.open
		return next()
	}
	return g
}

// held sends a command, and returns when its write waits for the gate.
func held(t *testing.T, s *hooked, rt asks, amount int) (gate, <-chan answer) {
	t.Helper()
	g := gated(s)
	reply := ask(t.Context(), rt, amount)
	synctest.Wait()
	return g, reply
}

// pass lets one write through, and waits until everything in the bubble waits.
func (g gate) pass() {
	g.open <- struct{}{}
	synctest.Wait()
}

// Guards "!e.writing" of task write in entity.upcoming.
func TestOneWriteInFlight(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		var inFlight, most atomic.Int64
		s.write = func(_ context.Context, _ written, next func() error) error {
			most.Store(max(most.Load(), inFlight.Add(1)))
			defer inFlight.Add(-1)
			time.Sleep(5 * time.Millisecond)
			return next()
		}
		rt := start(s, entity.Options{})
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond / 2)
				if _, err := rt.Ask(t.Context(), "a", 1); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if most.Load() != 1 {
			t.Errorf("%d writes at once", most.Load())
		}
		mustAsk(t, rt, 0, 100)
	})
}

// The host repeats the same Write: the WriteID is made once, in Seal.
func TestRetriesAreIdentical(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		var tries []written
		step := make(chan error)
		s.write = func(_ context.Context, w written, next func() error) error {
			w.commit.Events = slices.Clone(w.commit.Events)
			tries = append(tries, w)
			err := <-step
			if err == nil {
				return next()
			}
			if len(tries) == 1 {
				_ = next() // the answer gets lost
			}
			return err
		}
		rt := start(s, entity.Options{})
		first := ask(t.Context(), rt, 5)
		synctest.Wait()
		second := ask(t.Context(), rt, 6) // must not slip into the retries
		for _, kind := range []error{annals.ErrUnknown, annals.ErrUnavailable, nil, nil} {
			if kind != nil {
				kind = &annals.Error{Op: "test", Kind: kind}
			}
			step <- kind
		}
		answered(t, first, 5, nil)
		answered(t, second, 11, nil)
		if len(tries) != 4 {
			t.Fatalf("%d writes, want 3 of the first and 1 of the second", len(tries))
		}
		for _, again := range tries[1:3] {
			if again.state.FirstTry {
				t.Error("a write whose answer got lost is called a first try")
			}
			again.n, again.state.FirstTry = tries[0].n, tries[0].state.FirstTry
			if !reflect.DeepEqual(again, tries[0]) {
				t.Errorf("sent %+v, then %+v", tries[0], again)
			}
		}
		if tries[0].commit.WriteID == (annals.WriteID{}) && tries[0].state.WriteID == (annals.WriteID{}) {
			t.Error("a write has no WriteID")
		}
	})
}

// Commands are decided while a write is in flight, on the state that it will produce, and share the next write.
func TestWaitingCommandsShareTheNextWrite(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		g := gated(s)
		rt := start(s, entity.Options{})
		first := ask(t.Context(), rt, 1)
		synctest.Wait()
		var others []<-chan answer
		for range 20 {
			others = append(others, ask(t.Context(), rt, 1))
			synctest.Wait()
		}
		g.pass()
		answered(t, first, 1, nil)
		for _, ch := range others {
			unanswered(t, ch)
		}
		g.pass()
		for i, ch := range others {
			answered(t, ch, i+2, nil)
		}
		if n := s.writes.Load(); n != 2 {
			t.Errorf("%d writes, want 2", n)
		}
	})
}

// Decide is called before the write in flight has ended.
func TestDecidesWhileAWriteIsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newHooked()
		g := gated(s)
		var decided []int
		b := account
		b.Decide = func(balance, amount int) ([]int, error) {
			decided = append(decided, balance)
			return account.Decide(balance, amount)
		}
		rt, _ := entity.New(s, b, entity.Options{})
		one := ask(t.Context(), rt, 1)
		synctest.Wait()
		two := ask(t.Context(), rt, 2)
		synctest.Wait()
		if !slices.Equal(decided, []int{0, 1}) {
			t.Errorf("decided on %v while the first write was in flight, want on 0 and 1", decided)
		}
		g.pass()
		g.pass()
		answered(t, one, 1, nil)
		answered(t, two, 3, nil)
	})
}

// A reply or rejection that was decided on a state is given only after that state is stored.
func TestReadsAndRejectionsWaitForWhatTheySaw(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		g := gated(s)
		rt := start(s, entity.Options{})
		deposit := ask(t.Context(), rt, 5)
		synctest.Wait()
		read := ask(t.Context(), rt, 0)
		synctest.Wait()
		rejected := ask(t.Context(), rt, -6)
		unanswered(t, read)
		unanswered(t, rejected)
		g.pass()
		answered(t, deposit, 5, nil)
		answered(t, read, 5, nil)
		answered(t, rejected, 0, errPoor)
	})
}

// Guards batch.accepts and sourced.fits.
func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    entity.Options
		l    annals.Limits
		most int
	}{
		"MaxBatch":  {entity.Options{MaxBatch: 4}, annals.Limits{}, 4},
		"MaxBatch1": {entity.Options{MaxBatch: 1}, annals.Limits{}, 1},
		"MaxEvents": {entity.Options{}, annals.Limits{MaxEvents: 5}, 5},
		"MaxBytes":  {entity.Options{}, annals.Limits{MaxBytes: 18}, 3}, // of six bytes each
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newHooked()
				s.caps.Limits = c.l
				most := 0
				s.write = func(_ context.Context, w written, next func() error) error {
					time.Sleep(time.Millisecond)
					most = max(most, len(w.commit.Events))
					return next()
				}
				rt, _ := entity.New(s, account, c.o)
				var all []<-chan answer
				for range 40 {
					all = append(all, ask(t.Context(), rt, 1))
				}
				seen := map[int]bool{}
				for _, ch := range all {
					a := <-ch
					if a.err != nil || seen[a.reply] {
						t.Errorf("answered %d, %v", a.reply, a.err)
					}
					seen[a.reply] = true
				}
				if most != c.most {
					t.Errorf("up to %d events in a write, want %d", most, c.most)
				}
			})
		})
	}
}

// A command whose events are too large or invalid fails alone; the others of its batch succeed.
func TestCommandThatCannotBeStoredFailsAlone(t *testing.T) {
	t.Parallel()
	b := behavior.EventSourced[[]string, string, int, int]{
		Type:   "Words",
		Decide: func(_ int, words []string) ([]string, error) { return words, nil },
		Evolve: func(n int, _ string) int { return n + 1 },
		Reply:  func(n int, _ []string, _ []string) int { return n },
		Events: codec.JSON[string]("word"),
		Tags: func(word string) []string {
			if word == "untaggable" {
				return []string{"\x00"}
			}
			return nil
		},
	}
	synctest.Test(t, func(t *testing.T) {
		s := newHooked()
		s.caps.Limits = annals.Limits{MaxEvents: 3, MaxBytes: 40}
		g := gated(s)
		rt, _ := entity.New(s, b, entity.Options{})
		commands := []struct {
			words []string
			kind  error
		}{
			{[]string{"a"}, nil},
			{[]string{"b"}, nil},
			{[]string{"c", "d", "e", "f"}, annals.ErrTooLarge},
			{[]string{strings.Repeat("x", 50)}, annals.ErrTooLarge},
			{[]string{"untaggable"}, annals.ErrInvalid},
			{[]string{"g", "h"}, nil},
		}
		answers := make([]chan error, len(commands))
		for i, c := range commands {
			answers[i] = make(chan error, 1)
			go func() {
				_, err := rt.Ask(t.Context(), "a", c.words)
				answers[i] <- err
			}()
			synctest.Wait()
		}
		close(g.open)
		for i, c := range commands {
			if err := <-answers[i]; !errors.Is(err, c.kind) || c.kind == nil && err != nil {
				t.Errorf("command %d: %v, want %v", i, err, c.kind)
			}
		}
		if n, err := rt.Ask(t.Context(), "a", nil); n != 4 || err != nil {
			t.Errorf("%d words stored, %v, want 4", n, err)
		}
		if s.refused.Load() != 0 {
			t.Errorf("the store had to refuse %d writes", s.refused.Load())
		}
	})
}
