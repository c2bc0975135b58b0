package entity_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
)

func contains(err error, text string) bool { return strings.Contains(err.Error(), text) }

// Shutdown answers the commands that were accepted and refuses later ones. No goroutine is left: the synctest bubble checks that.
func TestShutdownFinishesWhatWasAccepted(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		g := gated(s)
		rt := start(s, entity.Options{MaxEntities: 1})
		first := ask(t.Context(), rt, 1)
		synctest.Wait()
		queued := ask(t.Context(), rt, 1)
		waiting := make(chan answer, 1)
		go func() {
			reply, err := rt.Ask(t.Context(), "b", 1)
			waiting <- answer{reply, err}
		}()
		synctest.Wait()
		down := make(chan error, 1)
		go func() { down <- rt.Shutdown(t.Context()) }()
		synctest.Wait()
		for _, id := range []string{"a", "b", "c"} {
			if _, err := rt.Ask(t.Context(), id, 1); !errors.Is(err, annals.ErrClosed) {
				t.Errorf("%s: %v, want closed", id, err)
			}
		}
		select {
		case err := <-down:
			t.Errorf("shut down with commands unanswered, %v", err)
		default:
		}
		close(g.open)
		if err := <-down; err != nil {
			t.Error(err)
		}
		answered(t, first, 1, nil)
		answered(t, queued, 2, nil)
		answered(t, waiting, 1, nil)
		if err := rt.Shutdown(t.Context()); err != nil || rt.Len() != 0 {
			t.Errorf("a second Shutdown: %v, %d entities", err, rt.Len())
		}
	})
}

// Guards Runtime.halt.
func TestShutdownHonoursItsContext(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		s.write = func(ctx context.Context, _ written, _ func() error) error {
			<-ctx.Done()
			return ctx.Err()
		}
		rt := start(s, entity.Options{MaxEntities: 1, MaxBatch: 1, WriteTimeout: time.Hour})
		inFlight := ask(t.Context(), rt, 1)
		synctest.Wait()
		var waits []chan answer
		for _, id := range []string{"a", "a", "b"} { // decided, in the mailbox, in the queue
			ch := make(chan answer, 1)
			waits = append(waits, ch)
			go func() {
				reply, err := rt.Ask(t.Context(), id, 1)
				ch <- answer{reply, err}
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := rt.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v, want its context's error", err)
		}
		answered(t, inFlight, 0, annals.ErrUnknown)
		for _, ch := range waits {
			answered(t, ch, 0, annals.ErrClosed)
		}
		if err := rt.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown, when all has ended: %v", err)
		}
	})
}

// Commands that Shutdown ends, and that have written nothing, are answered with ErrClosed: while the store is asked whether another owner has
// written, and where the store says that it has not written.
func TestShutdownEndsCallsThatWriteNothing(t *testing.T) {
	for name, amounts := range map[string][]int{"look": {0, -100, 0}, "write": {1, 1, 1}} {
		t.Run(name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, start starter) {
				hangs := false
				rt := start(&faulty.Store{Store: memstore.New(), Around: func(ctx context.Context, c *faulty.Call, run func() error) error {
					if !hangs {
						return run()
					}
					<-ctx.Done()
					return &annals.Error{Op: c.Op, ID: c.ID, Kind: annals.ErrUnavailable, Err: ctx.Err()}
				}}, entity.Options{WriteTimeout: time.Hour})
				mustAsk(t, rt, 5, 5)
				hangs = true
				var waits []<-chan answer
				for _, amount := range amounts {
					waits = append(waits, ask(t.Context(), rt, amount))
					synctest.Wait()
				}
				viewed := make(chan error, 1)
				go func() { viewed <- rt.View(t.Context(), "a", func(int, annals.SeqNr) error { return nil }) }()
				synctest.Wait()
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				if err := rt.Shutdown(ended); !errors.Is(err, annals.ErrUnknown) {
					t.Error(err)
				}
				for _, ch := range waits {
					answered(t, ch, 0, annals.ErrClosed)
				}
				if err := <-viewed; !errors.Is(err, annals.ErrClosed) {
					t.Errorf("View: %v", err)
				}
			})
		})
	}
}

// Commands that arrive while Shutdown begins are answered or refused, never lost.
func TestShutdownUnderLoad(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		rt := start(s, entity.Options{MaxEntities: 2})
		var wg sync.WaitGroup
		var mu sync.Mutex
		done := map[string]int{}
		for i := range 8 {
			wg.Go(func() {
				id := string(rune('a' + i%4))
				for {
					_, err := rt.Ask(t.Context(), id, 1)
					if errors.Is(err, annals.ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					done[id]++
					mu.Unlock()
				}
			})
		}
		for s.writes.Load() < 200 {
			if _, err := rt.Ask(t.Context(), "e", 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := rt.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		wg.Wait()
		rt = start(s, entity.Options{})
		for id, n := range done {
			mustAskID(t, rt, id, 0, n)
		}
	})
}
