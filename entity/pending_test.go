package entity_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/internal/random"
)

// Commands beyond MaxPending are refused at once, whichever entity they are for. Answered and dropped commands make room.
func TestMaxPending(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		g := gated(s)
		rt := start(s, entity.Options{MaxPending: 3, MaxEntities: 1})
		ctx, cancel := context.WithCancel(t.Context())
		first := ask(t.Context(), rt, 5)
		synctest.Wait()
		second := ask(ctx, rt, 6) // waits for the write of the first
		third := make(chan error, 1)
		go func() { // waits for memory
			_, err := rt.Ask(ctx, "b", 1)
			third <- err
		}()
		synctest.Wait()
		for _, id := range []string{"a", "b", "c"} {
			if _, err := rt.Ask(t.Context(), id, 1); !errors.Is(err, annals.ErrOverloaded) {
				t.Errorf("a command more to %s: %v", id, err)
			}
			if err := rt.View(t.Context(), id, func(int, annals.SeqNr) error { return nil }); !errors.Is(err, annals.ErrOverloaded) {
				t.Errorf("a View more of %s: %v", id, err)
			}
		}
		if n := rt.Pending(); n != 3 {
			t.Errorf("%d commands wait, want 3", n)
		}
		cancel()
		synctest.Wait()
		if err := <-third; !errors.Is(err, annals.ErrUnavailable) || rt.Pending() != 2 {
			t.Errorf("left the queue: %v, %d wait, want 2", err, rt.Pending())
		}
		g.pass()
		answered(t, first, 5, nil)
		close(g.open)
		answered(t, second, 0, annals.ErrUnknown) // it was decided when its caller left
		if n := rt.Pending(); n != 0 {
			t.Errorf("%d commands wait, want none", n)
		}
		mustAsk(t, rt, 0, 11)
		if err := rt.Shutdown(t.Context()); err != nil || rt.Pending() != 0 {
			t.Errorf("%v, %d commands wait", err, rt.Pending())
		}
	})
}

// Every command leaves the count once, however it ends: answered, refused, withdrawn in the queue, in the mailbox or during its write.
func TestPendingReturnsToZero(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s, r := newHooked(), random.New(t)
		unreliable(s, r)
		faulty := s.write
		s.write = func(ctx context.Context, w written, next func() error) error {
			time.Sleep(r.Below(20 * time.Millisecond))
			return faulty(ctx, w, next)
		}
		s.read = func(context.Context, annals.PersistenceID) error {
			time.Sleep(r.Below(20 * time.Millisecond))
			if r.OneIn(4) {
				return errors.New("connection refused")
			}
			return nil
		}
		rt := start(s, entity.Options{MaxEntities: 2, MaxPending: 25, MaxBatch: 3, WriteTimeout: 50 * time.Millisecond})
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				for range 50 {
					ctx, cancel := context.WithTimeout(t.Context(), r.Below(60*time.Millisecond))
					id := strconv.Itoa(r.IntN(4))
					if r.OneIn(5) {
						_ = rt.Evict(ctx, id, nil)
					} else {
						_, _ = rt.Ask(ctx, id, r.IntN(5)-2)
					}
					cancel()
				}
			})
		}
		go func() {
			time.Sleep(time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			_ = rt.Shutdown(ctx)
		}()
		wg.Wait()
		time.Sleep(time.Minute)
		if n := rt.Pending(); n != 0 {
			t.Errorf("%d commands wait, want none", n)
		}
	})
}

// Commands whose callers have given up are dropped at once, also while nothing is decided: here an Evict holds the entity.
func TestPendingOfAHeldEntity(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		rt := start(newHooked(), entity.Options{MaxPending: 100})
		evicted := make(chan error, 1)
		done := make(chan struct{})
		go func() {
			evicted <- rt.Evict(t.Context(), "a", func(context.Context) error { <-done; return nil })
		}()
		synctest.Wait()
		var stay []<-chan answer
		for range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			var waiting []<-chan answer
			for range 90 {
				waiting = append(waiting, ask(ctx, rt, 1))
			}
			stay = append(stay, ask(t.Context(), rt, 0))
			synctest.Wait()
			cancel()
			synctest.Wait()
			for _, a := range waiting {
				answered(t, a, 0, annals.ErrUnavailable)
			}
			if n := rt.Pending(); n < 1 || n > 10 {
				t.Errorf("%d commands wait", n)
			}
		}
		close(done)
		if err := <-evicted; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		for _, a := range stay {
			answered(t, a, 0, nil)
		}
		mustAsk(t, rt, 5, 5)
	})
}
