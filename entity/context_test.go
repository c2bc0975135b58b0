package entity_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/entity"
)

// A command whose caller left before it was decided is not executed, and its error says so.
func TestContextEndsBeforeTheCommandIsDecided(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		s.read = func(context.Context, annals.PersistenceID) error {
			time.Sleep(time.Second) // the recovery takes longer than the caller has time
			return nil
		}
		rt := start(s, entity.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		first := ask(ctx, rt, 5)
		synctest.Wait()
		second := ask(t.Context(), rt, 7)
		a := <-first
		if !errors.Is(a.err, annals.ErrUnavailable) || !errors.Is(a.err, context.DeadlineExceeded) || errors.Is(a.err, annals.ErrUnknown) {
			t.Errorf("%v, want that it is certain that nothing was done", a.err)
		}
		if a := <-second; a.reply != 7 || a.err != nil {
			t.Errorf("%d, %v: the command of the caller that left was executed", a.reply, a.err)
		}
		if _, err := rt.Ask(ctx, "a", 1); !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v from a context that had ended", err)
		}
		mustAsk(t, rt, 0, 7)
	})
}

// A caller leaves while its command is in flight: the outcome is unknown, and the answer that comes later is dropped.
func TestContextEndsInFlight(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		g := gated(s)
		rt := start(s, entity.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		first := ask(ctx, rt, 5)
		synctest.Wait()
		second := ask(ctx, rt, 6) // decided, and waiting for the first
		synctest.Wait()
		cancel()
		synctest.Wait()
		for _, ch := range []<-chan answer{first, second} {
			a := <-ch
			if !errors.Is(a.err, annals.ErrUnknown) || !errors.Is(a.err, context.Canceled) {
				t.Errorf("%v, want unknown", a.err)
			}
		}
		third := ask(t.Context(), rt, 7)
		unanswered(t, third)
		g.pass()
		g.pass()
		answered(t, third, 18, nil)
		s.heal()
		mustAsk(t, rt, 0, 18)
	})
}

// After a conflict, a command whose caller has left is not decided again: the caller was told that the outcome is unknown, and may repeat
// it.
func TestContextEndsBeforeTheCommandIsDecidedAgain(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		other := start(s.mem, entity.Options{})
		rt := start(s, entity.Options{})
		mustAsk(t, rt, 1, 1)
		g := gated(s)
		mustAsk(t, other, 1, 2)
		ctx, cancel := context.WithCancel(t.Context())
		first := ask(ctx, rt, 5)
		synctest.Wait()
		cancel()
		answered(t, first, 0, annals.ErrUnknown)
		g.pass() // the conflict
		s.heal()
		mustAsk(t, rt, 0, 2)
	})
}
