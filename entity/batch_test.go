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

type starter = func(s annals.Store, o entity.Options) *entity.Runtime[int, int]

// gate holds the writes of a store until they are let through.
type gate struct{ open chan struct{} }

func gated(s *hooked) gate {
	g := gate{make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write = func(_ context.Context, _ written, next func() (annals.Receipt, error)) (annals.Receipt, error) {
		<-g.open
		return next()
	}
	return g
}

// pass lets one write through and waits until everybody has done with it what he can.
func (g gate) pass() {
	g.open <- struct{}{}
	synctest.Wait()
}

// Guards "!e.writing" of task write in entity.todo.
func TestOneWriteInFlight(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		synctest.Test(t, func(t *testing.T) {
			s := newHooked()
			var inFlight, most atomic.Int64
			s.write = func(_ context.Context, _ written, next func() (annals.Receipt, error)) (annals.Receipt, error) {
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
	})
}

// Guards the loop of host.Send: it sends the same Write, and Seal alone makes WriteIDs.
func TestRetriesAreIdentical(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		synctest.Test(t, func(t *testing.T) {
			s := newHooked()
			var tries []written
			step := make(chan error)
			s.write = func(_ context.Context, w written, next func() (annals.Receipt, error)) (annals.Receipt, error) {
				w.commit.Events = slices.Clone(w.commit.Events)
				tries = append(tries, w)
				err := <-step
				if err == nil {
					return next()
				}
				if len(tries) == 1 {
					_, _ = next() // the answer gets lost
				}
				return annals.Receipt{}, err
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
			synctest.Wait()
			answered(t, first, 5, nil)
			answered(t, second, 11, nil)
			if len(tries) != 4 {
				t.Fatalf("%d writes, want 3 of the first and 1 of the second", len(tries))
			}
			for _, again := range tries[1:3] {
				if again.n = tries[0].n; !reflect.DeepEqual(again, tries[0]) {
					t.Errorf("sent %+v, then %+v", tries[0], again)
				}
			}
			if tries[0].commit.WriteID.IsZero() && tries[0].state.WriteID.IsZero() {
				t.Error("a write has no WriteID")
			}
		})
	})
}

// Guards "e.current, e.next = b, …" in entity.write: commands are decided while a write is in flight, on what it will
// produce, and share the next one.
func TestWaitingCommandsShareTheNextWrite(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		synctest.Test(t, func(t *testing.T) {
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
	})
}

// Guards Decide being called before the write in flight has ended (task decide while writing).
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

// Guards entity.ahead: what was decided on a state that is not stored yet must not be told.
func TestReadsAndRejectionsWaitForWhatTheySaw(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		synctest.Test(t, func(t *testing.T) {
			s := newHooked()
			g := gated(s)
			rt := start(s, entity.Options{})
			deposit := ask(t.Context(), rt, 5)
			synctest.Wait()
			read := ask(t.Context(), rt, 0)
			synctest.Wait()
			rejected := ask(t.Context(), rt, -6)
			synctest.Wait()
			unanswered(t, read)
			unanswered(t, rejected)
			g.pass()
			answered(t, deposit, 5, nil)
			answered(t, read, 5, nil)
			answered(t, rejected, 0, errPoor)
		})
	})
}

// Guards the requeueing of a batch's commands, all of them, in entity.overtaken: a rejection and a read that saw what was
// not stored are decided again on what another owner wrote.
func TestConflictDecidesAgain(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		synctest.Test(t, func(t *testing.T) {
			s := newHooked()
			other := start(s.Store, entity.Options{})
			rt := start(s, entity.Options{})
			mustAsk(t, rt, 5, 5)
			g := gated(s)
			mustAsk(t, other, 100, 105)

			deposit := ask(t.Context(), rt, 1)
			synctest.Wait()
			read := ask(t.Context(), rt, 0)
			withdrawal := ask(t.Context(), rt, -50)
			synctest.Wait()
			g.pass() // meets the conflict; deposit and the others go out again
			unanswered(t, deposit)
			unanswered(t, read)
			g.pass()
			balances := []int{(<-deposit).reply, (<-read).reply, (<-withdrawal).reply}
			if balances[0] != 106 || !slices.Contains([]int{106, 56}, balances[1]) || balances[2] != 56 {
				t.Errorf("replies %v, want 106, 106 or 56, 56", balances)
			}
		})
	})
}

// Guards the same for a rejection within the batch that meets the conflict.
func TestConflictDecidesRejectionsAgain(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		synctest.Test(t, func(t *testing.T) {
			s := newHooked()
			other := start(s.Store, entity.Options{})
			g := gated(s)
			rt := start(s, entity.Options{})
			first := ask(t.Context(), rt, 5)
			synctest.Wait()
			second := ask(t.Context(), rt, 1)
			synctest.Wait()
			withdrawal := ask(t.Context(), rt, -50) // rejected, together with the second
			synctest.Wait()
			g.pass()
			answered(t, first, 5, nil)
			unanswered(t, withdrawal)
			mustAsk(t, other, 100, 105)
			g.pass()
			unanswered(t, withdrawal)
			g.pass()
			answered(t, second, 106, nil)
			answered(t, withdrawal, 56, nil)
		})
	})
}

// Guards the bound in entity.overtaken.
func TestConflictsEndAtMaxRetries(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		synctest.Test(t, func(t *testing.T) {
			s := newHooked()
			s.write = func(context.Context, written, func() (annals.Receipt, error)) (annals.Receipt, error) {
				return annals.Receipt{}, &annals.Error{Op: "test", Kind: annals.ErrConflict}
			}
			rt := start(s, entity.Options{MaxRetries: 3})
			if _, err := rt.Ask(t.Context(), "a", 1); !errors.Is(err, annals.ErrConflict) || s.writes.Load() != 4 {
				t.Errorf("%v after %d tries, want a conflict after 4", err, s.writes.Load())
			}
			s.heal()
			mustAsk(t, rt, 1, 1)
		})
	})
}

// Guards failAll and the reload behind it: the commands of a failed write fail, those behind them are decided again.
func TestCertainFailureFailsItsCommandsOnly(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		synctest.Test(t, func(t *testing.T) {
			s := newHooked()
			result := make(chan error)
			s.write = func(_ context.Context, _ written, next func() (annals.Receipt, error)) (annals.Receipt, error) {
				if err := <-result; err != nil {
					return annals.Receipt{}, err
				}
				return next()
			}
			rt := start(s, entity.Options{})
			first := ask(t.Context(), rt, 5)
			synctest.Wait()
			second := ask(t.Context(), rt, 6)
			synctest.Wait()
			result <- &annals.Error{Op: "test", Kind: annals.ErrFenced}
			synctest.Wait()
			answered(t, first, 0, annals.ErrFenced)
			unanswered(t, second)
			result <- nil
			synctest.Wait()
			answered(t, second, 6, nil)
		})
	})
}

// Guards e.single: what the store refuses for one command's sake does not fail its neighbours.
func TestStoreRefusesOneOfABatch(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		synctest.Test(t, func(t *testing.T) {
			s := newHooked()
			g := make(chan struct{})
			s.write = func(_ context.Context, w written, next func() (annals.Receipt, error)) (annals.Receipt, error) {
				<-g
				for _, e := range w.commit.Events {
					if string(e.Data) == "13" {
						return annals.Receipt{}, &annals.Error{Op: "test", Kind: annals.ErrConstraint}
					}
				}
				if n := len(w.state.Data); n > 0 && strings.Contains("13 14 113 114", string(w.state.Data)) {
					return annals.Receipt{}, &annals.Error{Op: "test", Kind: annals.ErrConstraint}
				}
				return next()
			}
			rt := start(s, entity.Options{})
			first := ask(t.Context(), rt, 100)
			synctest.Wait()
			bad := ask(t.Context(), rt, 13)
			synctest.Wait()
			good := ask(t.Context(), rt, 1)
			synctest.Wait()
			read := ask(t.Context(), rt, 0)
			synctest.Wait()
			close(g)
			synctest.Wait()
			answered(t, first, 100, nil)
			answered(t, bad, 0, annals.ErrConstraint)
			answered(t, good, 101, nil)
			answered(t, read, 101, nil)
		})
	})
}

// Guards the ErrUnknown case of entity.settle.
func TestUnknownIsNotDecidedAgain(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		for _, landed := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				s := newHooked()
				s.write = func(ctx context.Context, w written, next func() (annals.Receipt, error)) (annals.Receipt, error) {
					if landed && w.n == 1 {
						_, _ = next()
					}
					return annals.Receipt{}, &annals.Error{Op: "test", Kind: annals.ErrUnknown}
				}
				rt := start(s, entity.Options{WriteTimeout: 3 * time.Second})
				began := time.Now()
				first := ask(t.Context(), rt, 5)
				synctest.Wait()
				second := ask(t.Context(), rt, 7) // decided on what the first will produce, and not sent
				time.Sleep(time.Second)
				unanswered(t, first)
				a := <-first
				if !errors.Is(a.err, annals.ErrUnknown) || a.reply != 0 || time.Since(began) > 4*time.Second {
					t.Errorf("answered %d, %v after %v", a.reply, a.err, time.Since(began))
				}
				s.heal()
				want := 7
				if landed {
					want = 12
				}
				if a := <-second; a.err != nil || a.reply != want {
					t.Errorf("the second was answered %d, %v, want %d", a.reply, a.err, want)
				}
				mustAsk(t, rt, 0, want)
			})
		}
	})
}

// Guards "doubt" in host.Send: a store that does not know its writes again reports our own as a conflict.
func TestConflictWithOneselfIsUnknown(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		synctest.Test(t, func(t *testing.T) {
			s := newHooked()
			s.caps.Repeatable, s.caps.IdempotentState = false, false
			s.write = func(_ context.Context, w written, next func() (annals.Receipt, error)) (annals.Receipt, error) {
				if w.n == 1 {
					_, _ = next()
					return annals.Receipt{}, errors.New("connection reset") // says nothing: as good as unknown
				}
				return annals.Receipt{}, &annals.Error{Op: "test", Kind: annals.ErrConflict}
			}
			rt := start(s, entity.Options{})
			_, err := rt.Ask(t.Context(), "a", 5)
			if !errors.Is(err, annals.ErrUnknown) || errors.Is(err, annals.ErrConflict) {
				t.Errorf("%v, want unknown and no conflict", err)
			}
			s.heal()
			mustAsk(t, rt, 0, 5)
		})
	})
}

// Guards batch.room and sourced.fits.
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
		"MaxBytes":  {entity.Options{}, annals.Limits{MaxBytes: 3}, 3}, // of one byte each
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newHooked()
				s.caps.Limits = c.l
				most := 0
				s.write = func(_ context.Context, w written, next func() (annals.Receipt, error)) (annals.Receipt, error) {
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

// Guards the validation in sourced.stage: a command that alone is too large, or wrong, fails alone.
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

// Guards forgotten in host.Send: a write of which the store has forgotten who made it is not sent until WriteTimeout.
func TestForgottenWriteIsUnknownAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newHooked()
		other, _ := entity.NewState(s.Store, accountState, entity.Options{})
		s.write = func(_ context.Context, w written, next func() (annals.Receipt, error)) (annals.Receipt, error) {
			if w.n == 1 {
				_, _ = next()
				for range 5 {
					if _, err := other.Ask(t.Context(), "a", 1); err != nil {
						t.Error(err)
					}
				}
				return annals.Receipt{}, &annals.Error{Op: "test", Kind: annals.ErrUnknown}
			}
			return next()
		}
		rt, _ := entity.NewState(s, accountState, entity.Options{})
		began := time.Now()
		if _, err := rt.Ask(t.Context(), "a", 5); !errors.Is(err, annals.ErrUnknown) || time.Since(began) > time.Second {
			t.Errorf("%v after %v, want unknown at once", err, time.Since(began))
		}
		mustAsk(t, rt, 0, 10)
	})
}
