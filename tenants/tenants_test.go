package tenants_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/tenants"
)

// world opens stores and knows which are open.
type world struct {
	*testing.T
	*tenants.Stores

	mu     sync.Mutex
	open   map[string]*store
	opened int
	fails  error         // of the next opens
	slow   time.Duration // how long opening and closing take
}

// store is a store that must not be closed in use.
type store struct {
	*memstore.Store
	world *world
	name  string
	users int
}

func inWorld(t *testing.T, o tenants.Options, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, open: map[string]*store{}}
		o.Logger = slog.New(slog.DiscardHandler)
		s, err := tenants.New(w.openStore, o)
		if err != nil {
			t.Fatal(err)
		}
		w.Stores = s
		test(w)
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		w.wantOpen()
		if err := w.Use(w.Context(), "late", nil); !errors.Is(err, annals.ErrClosed) {
			t.Errorf("used after Close: %v", err)
		}
	})
}

func (w *world) openStore(ctx context.Context, name string) (annals.Store, error) {
	select {
	case <-time.After(w.slow):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fails != nil {
		return nil, w.fails
	}
	if w.open[name] != nil {
		w.Errorf("tenant %s has two stores", name)
	}
	w.opened++
	w.open[name] = &store{memstore.New(), w, name, 0}
	return w.open[name], nil
}

func (s *store) Close() error {
	time.Sleep(s.world.slow)
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	if s.users > 0 || s.world.open[s.name] != s {
		s.world.Errorf("the store of tenant %s is closed with %d users", s.name, s.users)
	}
	delete(s.world.open, s.name)
	return s.Store.Close()
}

// use uses the store of a tenant for a while.
func (w *world) use(ctx context.Context, name string, d time.Duration) error {
	return w.Use(ctx, name, func(_ context.Context, used annals.Store) error {
		s := used.(*store)
		change := func(n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if s.users += n; w.open[name] != s {
				w.Errorf("a store of tenant %s that is closed is in use", name)
			}
		}
		change(1)
		defer change(-1)
		time.Sleep(d)
		return nil
	})
}

func (w *world) mustUse(name string, d time.Duration) {
	w.Helper()
	if err := w.use(w.Context(), name, d); err != nil {
		w.Error(err)
	}
}

// names are the tenants whose stores are open.
func (w *world) names() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.open))
}

func (w *world) wantOpen(names ...string) {
	w.Helper()
	if got := w.names(); !slices.Equal(got, names) {
		w.Errorf("open are %v, want %v", got, names)
	}
}

func TestIdle(t *testing.T) {
	t.Parallel()
	inWorld(t, tenants.Options{}, func(w *world) {
		w.mustUse("a", time.Hour)
		time.Sleep(5*time.Minute - 1)
		w.mustUse("a", 0)
		time.Sleep(5*time.Minute - 1)
		w.wantOpen("a")
		time.Sleep(time.Nanosecond)
		w.wantOpen()
		if w.opened != 1 {
			t.Errorf("opened %d times", w.opened)
		}
	})
}

// Beyond Max the store that was not used for the longest time is closed, and none in use.
func TestMax(t *testing.T) {
	t.Parallel()
	inWorld(t, tenants.Options{Max: 2}, func(w *world) {
		var ends sync.WaitGroup
		for _, name := range []string{"a", "b", "c"} {
			w.mustUse(name, time.Second)
		}
		w.wantOpen("b", "c")
		for _, name := range []string{"b", "c", "d"} {
			ends.Go(func() { w.mustUse(name, time.Second) })
		}
		w.wantOpen("b", "c", "d")
		ends.Wait()
		w.mustUse("d", time.Second)
		if open := w.names(); len(open) != 2 || !slices.Contains(open, "d") {
			t.Errorf("open are %v", open)
		}
	})
}

// Those who ask at the same time wait for one open, and get its error; the next one tries again.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	inWorld(t, tenants.Options{}, func(w *world) {
		w.fails, w.slow = errors.New("not now"), time.Second
		var ends sync.WaitGroup
		for range 3 {
			ends.Go(func() {
				if err := w.use(w.Context(), "a", 0); !errors.Is(err, w.fails) {
					t.Errorf("got %v", err)
				}
			})
		}
		ends.Wait()
		w.fails = nil
		for range 3 {
			ends.Go(func() { w.mustUse("a", time.Second) })
		}
		ends.Wait()
		if w.opened != 1 {
			t.Errorf("opened %d times", w.opened)
		}
	})
}

// One of those who wait may leave. When all have left, the open is cancelled, and the next call is not affected.
func TestLeaving(t *testing.T) {
	t.Parallel()
	inWorld(t, tenants.Options{}, func(w *world) {
		w.slow = time.Minute
		short, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		var ends sync.WaitGroup
		ends.Go(func() {
			if err := w.use(short, "a", 0); !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("left with %v", err)
			}
		})
		ends.Go(func() { w.mustUse("a", 0) })
		ends.Go(func() {
			if err := w.use(short, "b", 0); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("left with %v", err)
			}
			w.mustUse("b", 0)
		})
		ends.Wait()
		w.wantOpen("a", "b")
	})
}

// Close waits for those who use a store, and refuses others.
func TestCloseWaits(t *testing.T) {
	t.Parallel()
	inWorld(t, tenants.Options{}, func(w *world) {
		w.slow = time.Second
		w.mustUse("a", 0)
		var ends sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			ends.Go(func() { w.mustUse(name, time.Hour) })
		}
		synctest.Wait()
		began := time.Now()
		ends.Go(func() {
			time.Sleep(time.Minute)
			if err := w.use(w.Context(), "a", 0); !errors.Is(err, annals.ErrClosed) {
				t.Errorf("used after Close: %v", err)
			}
		})
		if err := w.Close(); err != nil || time.Since(began) < time.Hour {
			t.Errorf("Close returned after %v: %v", time.Since(began), err)
		}
		ends.Wait()
	})
}

func TestRandomUses(t *testing.T) {
	t.Parallel()
	for r := range random.Rounds(t, 50) {
		inWorld(t, tenants.Options{Max: 3, Idle: time.Minute}, func(w *world) {
			w.slow = r.Below(10 * time.Second)
			var ends sync.WaitGroup
			for range 10 {
				r := r.Child()
				ends.Go(func() {
					for range 20 {
						ctx, cancel := context.WithTimeout(w.Context(), r.Below(30*time.Second)+1)
						err := w.use(ctx, fmt.Sprint(r.IntN(8)), r.Below(20*time.Second))
						cancel()
						if err != nil && !errors.Is(err, context.DeadlineExceeded) {
							t.Error(err)
						}
						time.Sleep(r.Below(30 * time.Second))
					}
				})
			}
			ends.Wait()
			time.Sleep(20 * time.Second)
			if open := w.names(); len(open) > 3 {
				t.Errorf("%v stay open", open)
			}
			if r.OneIn(2) {
				time.Sleep(2 * time.Minute)
				w.wantOpen()
			}
		})
	}
}

func TestPanics(t *testing.T) {
	t.Parallel()
	inWorld(t, tenants.Options{Idle: time.Minute}, func(w *world) {
		func() {
			defer func() { _ = recover() }()
			_ = w.Use(w.Context(), "a", func(context.Context, annals.Store) error { panic("of the test") })
		}()
		time.Sleep(time.Minute)
		w.wantOpen()
	})
	s, err := tenants.New(func(context.Context, string) (annals.Store, error) { panic("of the test") }, tenants.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Use(t.Context(), "a", nil); !errors.Is(err, annals.ErrPanic) {
		t.Errorf("a panic of open: %v", err)
	}
	s, err = tenants.New(func(context.Context, string) (annals.Store, error) { return nil, nil }, tenants.Options{})
	if err != nil {
		t.Fatal(err)
	}
	used := func(context.Context, annals.Store) error { t.Error("used"); return nil }
	if err := s.Use(t.Context(), "a", used); !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("no store of open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	open := func(context.Context, string) (annals.Store, error) { return memstore.New(), nil }
	_, noOpen := tenants.New(nil, tenants.Options{})
	_, noMax := tenants.New(open, tenants.Options{Max: -1})
	_, noIdle := tenants.New(open, tenants.Options{Idle: -1})
	for _, err := range []error{noOpen, noMax, noIdle} {
		if !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	}
}

// ending is a store whose Close ends its goroutine.
type ending struct{ annals.Store }

func (ending) Close() error { runtime.Goexit(); return nil }

// A store whose Close does not return holds up neither the next use of its tenant nor Close.
func TestCloseEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		open := func(context.Context, string) (annals.Store, error) { return ending{memstore.New()}, nil }
		s, err := tenants.New(open, tenants.Options{Idle: time.Minute, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.Use(t.Context(), "a", func(context.Context, annals.Store) error { return nil }); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
		if err := s.Use(t.Context(), "a", func(context.Context, annals.Store) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); !errors.Is(err, annals.ErrPanic) {
			t.Errorf("closed: %v", err)
		}
	})
}
