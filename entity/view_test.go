package entity_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/entity"
)

// seen is what a View saw.
type seen struct {
	state  int
	number annals.SeqNr
	err    error
}

func view(ctx context.Context, rt *entity.Runtime[int, int, int]) <-chan seen {
	ch := make(chan seen, 1)
	go func() {
		var s seen
		s.err = rt.View(ctx, "a", func(state int, number annals.SeqNr) error {
			s.state, s.number = state, number
			return nil
		})
		ch <- s
	}()
	return ch
}

func mustView(t *testing.T, rt *entity.Runtime[int, int, int], state int, number annals.SeqNr) {
	t.Helper()
	if got := <-view(t.Context(), rt); got != (seen{state, number, nil}) {
		t.Errorf("saw %+v, want %d of number %d", got, state, number)
	}
	if s, n, err := rt.Load(t.Context(), "a"); s != state || n != number || err != nil {
		t.Errorf("loaded %d of number %d, %v, want %d of number %d", s, n, err, state, number)
	}
}

// A View is confirmed by the store like an answer without a write, and sees what other runtimes wrote.
func TestViewSeesWhatOthersWrote(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		rt, other, alone := start(s, entity.Options{}), start(s, entity.Options{}), start(s, entity.Options{SingleOwner: true})
		mustView(t, rt, 0, 0)
		mustAsk(t, rt, 5, 5)
		mustView(t, alone, 5, 1)
		mustAsk(t, other, 10, 15)
		s.looks.Store(0)
		mustView(t, alone, 5, 1)
		if n := s.looks.Load(); n != 0 {
			t.Errorf("%d looks at the store by a single owner", n)
		}
		mustView(t, rt, 15, 2)
	})
}

// Views that wait for one write need no read of the store. Each sees a state whose number no other state has: where a durable state is
// written once for several commands, the Views see the state after the last command.
func TestViewsInABatch(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		rt := start(s, entity.Options{})
		mustAsk(t, rt, 5, 5)
		g, first := held(t, s, rt, 1)
		s.looks.Store(0)
		var views []<-chan seen
		for range 3 {
			views = append(views, view(t.Context(), rt))
			synctest.Wait()
			ask(t.Context(), rt, 10)
			synctest.Wait()
		}
		views = append(views, view(t.Context(), rt))
		synctest.Wait()
		g.pass()
		answered(t, first, 6, nil)
		for _, v := range views {
			select {
			case got := <-v:
				t.Errorf("%+v before what it depends on is stored", got)
			default:
			}
		}
		g.pass()
		writes, states := s.writes.Load(), map[annals.SeqNr]int{1: 5, 2: 6, 3: 16, 4: 26, 5: 36}
		if rt.Len() != 1 || writes != 3 || s.looks.Load() != 0 {
			t.Errorf("%d writes, want 3, and %d looks, want 0", writes, s.looks.Load())
		}
		if _, sourced := s.stored(t, "Account|a"); !sourced {
			states[3] = 36
		}
		for _, v := range views {
			if got := <-v; got.err != nil || states[got.number] != got.state {
				t.Errorf("saw %+v, and the states are %v", got, states)
			}
		}
		_ = rt.Shutdown(t.Context())
	})
}

// stored is the number of events of id, and whether there are any.
func (s *hooked) stored(t *testing.T, id annals.PersistenceID) (n annals.SeqNr, ok bool) {
	n, err := s.mem.Journal().LastSeqNr(t.Context(), id)
	if err != nil {
		t.Error(err)
	}
	return n, n > 0
}

// When the write that a View waits for meets a conflict, the entity is loaded again, and fn gets the new state.
func TestViewIsRepeatedAfterAConflict(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		rt, other := start(s, entity.Options{}), start(s, entity.Options{})
		mustAsk(t, rt, 5, 5)
		g, _ := held(t, s, rt, 1)
		v := view(t.Context(), rt)
		synctest.Wait()
		s.heal()
		mustAsk(t, other, 100, 105)
		g.pass() // refused
		if got := <-v; got != (seen{106, 3, nil}) && got != (seen{105, 2, nil}) {
			t.Errorf("saw %+v", got)
		}
		_ = rt.Shutdown(t.Context())
	})
}

// What fn does wrong concerns its own View alone.
func TestViewFails(t *testing.T) {
	own := errors.New("of the test")
	for name, c := range map[string]struct {
		fn   func(int, annals.SeqNr) error
		want error
	}{
		"error":  {func(int, annals.SeqNr) error { return own }, own},
		"panic":  {func(int, annals.SeqNr) error { panic("of the test") }, annals.ErrPanic},
		"Goexit": {func(int, annals.SeqNr) error { runtime.Goexit(); return nil }, annals.ErrPanic},
	} {
		t.Run(name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, start starter) {
				s := newHooked()
				rt := start(s, entity.Options{})
				mustAsk(t, rt, 5, 5)
				if err := rt.View(t.Context(), "a", c.fn); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				g, first := held(t, s, rt, 1)
				second := ask(t.Context(), rt, 10)
				synctest.Wait()
				failed := make(chan error, 1)
				go func() { failed <- rt.View(t.Context(), "a", c.fn) }()
				synctest.Wait()
				third := ask(t.Context(), rt, 100)
				synctest.Wait()
				close(g.open)
				answered(t, first, 6, nil)
				answered(t, second, 16, nil)
				answered(t, third, 116, nil)
				if err := <-failed; !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				mustView(t, rt, 116, (<-view(t.Context(), rt)).number)
				_ = rt.Shutdown(t.Context())
			})
		})
	}
}

// When the context of a View ends, View returns, and fn is not called any more.
func TestViewEndsWithItsContext(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		rt, other := start(s, entity.Options{}), start(s, entity.Options{})
		mustAsk(t, rt, 5, 5)
		g, _ := held(t, s, rt, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var mu sync.Mutex
		returned := false
		err := rt.View(ctx, "a", func(int, annals.SeqNr) error {
			mu.Lock()
			defer mu.Unlock()
			if returned {
				t.Error("called after View returned")
			}
			return nil
		})
		mu.Lock()
		returned = true
		mu.Unlock()
		if !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want that the time is over", err)
		}
		s.heal()
		mustAsk(t, other, 100, 105)
		g.pass() // refused: the View is decided again, and its function is not called
		_ = rt.Shutdown(t.Context())
	})
}

// A number that Do or View returns belongs to one state, also of durable states: DoAt with this number finds that state.
func TestNumbersTellStatesApart(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		s.write = func(_ context.Context, _ written, next func() error) error {
			time.Sleep(5 * time.Millisecond)
			return next()
		}
		hosts := [2]*entity.Runtime[int, int, int]{start(s, entity.Options{}), start(s, entity.Options{})}
		var (
			mu     sync.Mutex
			states = map[annals.SeqNr]int{}
			wg     sync.WaitGroup
		)
		note := func(n annals.SeqNr, state int) {
			mu.Lock()
			defer mu.Unlock()
			if was, ok := states[n]; ok && was != state {
				t.Errorf("number %d is of %d and %d", n, was, state)
			}
			states[n] = state
		}
		const each = 20
		for i := range 12 {
			rt := hosts[i%2]
			wg.Go(func() {
				for range each {
					switch i % 6 {
					case 0, 1:
						if _, err := rt.Ask(t.Context(), "a", 1); err != nil {
							t.Error(err)
						}
					case 2, 3:
						got, err := rt.Do(t.Context(), "a", 1)
						if err != nil {
							t.Error(err)
						}
						note(got.SeqNr, got.Reply)
					default:
						got := <-view(t.Context(), rt)
						if got.err != nil {
							t.Error(got.err)
						}
						note(got.number, got.state)
						done, err := rt.DoAt(t.Context(), "a", got.number, 1)
						if err == nil && done.Reply != got.state+1 {
							t.Errorf("DoAt found %d under number %d, View %d", done.Reply-1, got.number, got.state)
						}
						if err != nil && !errors.Is(err, annals.ErrConflict) {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
		for _, rt := range hosts {
			if err := rt.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestDoAt(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		rt, other := start(s, entity.Options{}), start(s, entity.Options{})
		want := func(got behavior.Result[int], err error) func(int, annals.SeqNr, error) {
			return func(reply int, number annals.SeqNr, kind error) {
				t.Helper()
				if got.Reply != reply || got.SeqNr != number || !errors.Is(err, kind) {
					t.Errorf("%+v, %v, want %d of number %d, %v", got, err, reply, number, kind)
				}
			}
		}
		want(rt.DoAt(t.Context(), "a", 1, 5))(0, 0, annals.ErrConflict)
		want(rt.DoAt(t.Context(), "a", 0, 5))(5, 1, nil)
		want(rt.DoAt(t.Context(), "a", 0, 5))(0, 0, annals.ErrConflict)
		want(rt.Do(t.Context(), "a", 0))(5, 1, nil)
		want(rt.DoAt(t.Context(), "a", 1, -6))(0, 0, errPoor)
		want(rt.DoAt(t.Context(), "a", -1, 5))(0, 0, annals.ErrInvalid)
		want(other.Do(t.Context(), "a", 10))(15, 2, nil)
		want(rt.DoAt(t.Context(), "a", 1, 5))(0, 0, annals.ErrConflict) // found out by its write
		want(other.Do(t.Context(), "a", 10))(25, 3, nil)
		want(rt.DoAt(t.Context(), "a", 3, 5))(30, 4, nil) // a conflict from memory alone would be wrong
		want(other.DoAt(t.Context(), "a", 4, 0))(30, 4, nil)
	})
}

// A View that waits for a write whose time or number becomes part of the state sees the state with it.
func TestViewSeesStoredInfo(t *testing.T) {
	t.Parallel()
	type state struct {
		Total  int
		number annals.SeqNr
	}
	synctest.Test(t, func(t *testing.T) {
		s := newHooked()
		rt, err := entity.NewState(s, behavior.DurableState[int, state, int]{
			Type: "Account",
			Decide: func(now state, amount int) (behavior.Effect[state], error) {
				if amount == 0 {
					return behavior.Delete[state](), nil
				}
				return behavior.Save(state{Total: now.Total + amount}), nil
			},
			Stored: func(now state, i behavior.Info) state { now.number = i.SeqNr; return now },
			Reply:  func(now state, _ int) int { return now.Total },
		}, entity.Options{Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		mustAsk(t, rt, 5, 5)
		g, _ := held(t, s, rt, 1)
		ask(t.Context(), rt, 0)
		synctest.Wait()
		views := make(chan error, 2)
		for range 2 {
			go func() {
				views <- rt.View(t.Context(), "a", func(now state, number annals.SeqNr) error {
					if now.number != number && now != (state{}) {
						return fmt.Errorf("%+v of number %d", now, number)
					}
					return nil
				})
			}()
			synctest.Wait()
			ask(t.Context(), rt, 10)
			synctest.Wait()
		}
		close(g.open)
		for range 2 {
			if err := <-views; err != nil {
				t.Error(err)
			}
		}
		_ = rt.Shutdown(t.Context())
	})
}
