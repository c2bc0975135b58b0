package lease_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/lease"
	"github.com/annals-go/annals/memstore"
)

const length = 10 * time.Second

// world is a store with one lease, and the processes that want it.
type world struct {
	*testing.T
	store *memstore.Store
	lease time.Duration // of the processes that are started

	mu    sync.Mutex
	began []context.Context // of the functions
	fence annals.SeqNr      // of the newest function
}

func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) { test(&world{T: t, store: memstore.New(), lease: length}) })
}

// process is one process with its own connection.
type process struct {
	*world
	around faulty.Around
	stop   context.CancelFunc
	ended  chan struct{}
	err    error // of Run
}

// start starts a process. fn is called in its function, and nil waits for the end of the context.
func (w *world) start(around faulty.Around, fn func(ctx context.Context) error) *process {
	ctx, stop := context.WithCancel(w.Context())
	o := lease.Options{Lease: w.lease, Logger: slog.New(slog.DiscardHandler)}
	p := &process{world: w, around: around, stop: stop, ended: make(chan struct{})}
	store := annals.Store(w.store)
	if around != nil {
		store = &faulty.Store{Store: w.store, Around: around}
	}
	go func() {
		defer close(p.ended)
		p.err = lease.Run(ctx, store, "l", o, func(ctx context.Context, fence annals.SeqNr) error {
			w.begin(ctx, fence)
			if fn != nil {
				return fn(ctx)
			}
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	w.Cleanup(func() {
		stop()
		<-p.ended
	})
	return p
}

func (w *world) begin(ctx context.Context, fence annals.SeqNr) {
	if n := w.working(); n > 0 {
		w.Errorf("%d functions work while one begins", n)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if fence <= w.fence {
		w.Errorf("the fence %d comes after %d", fence, w.fence)
	}
	w.fence, w.began = fence, append(w.began, ctx)
}

// working is how many functions have a context that has not ended.
func (w *world) working() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ctx := range w.began {
		if ctx.Err() == nil {
			n++
		}
	}
	return n
}

// begins waits until n functions have begun, and returns how long that took.
func (w *world) begins(n int, within time.Duration) time.Duration {
	w.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		w.mu.Lock()
		got := len(w.began)
		w.mu.Unlock()
		passed := time.Since(began)
		if got >= n {
			return passed
		}
		if passed > within {
			w.Fatalf("%d functions have begun after %v, want %d", got, passed, n)
		}
	}
}

// wantBegun demands that n functions have begun.
func (w *world) wantBegun(n int) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.began) != n {
		w.Errorf("%d functions have begun, want %d", len(w.began), n)
	}
}

// A process that stops hands over at the next look of another one, one that is killed after the time of its lease, and one that works keeps it.
func TestHandedOver(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		var killed atomic.Bool
		first := w.start(nil, nil)
		w.begins(1, time.Millisecond)
		second := w.start(func(ctx context.Context, c *faulty.Call, run func() error) error {
			if killed.Load() {
				return faulty.Failed(c)
			}
			return run()
		}, nil)
		time.Sleep(time.Hour)
		w.wantBegun(1)
		first.stop()
		if took := w.begins(2, length); took > length/2 {
			t.Errorf("a process that stopped was followed after %v", took)
		}
		<-first.ended
		third := w.start(nil, nil)
		time.Sleep(time.Minute)
		killed.Store(true)
		if took := w.begins(3, 3*length); took < length/2 || took > 2*length {
			t.Errorf("a process that was killed was followed after %v", took)
		}
		second.stop()
		third.stop()
		<-second.ended
		<-third.ended
		for _, p := range []*process{first, second, third} {
			if p.err != nil {
				t.Error(p.err)
			}
		}
	})
}

// Functions never work at the same time, whatever happens to the store and to the processes, and one of them is called again soon.
func TestRandomWorlds(t *testing.T) {
	t.Parallel()
	for r := range random.Rounds(t, 40) {
		inWorld(t, func(w *world) {
			var mu sync.Mutex
			faults := map[*random.Source]int{} // 0: none, 1: some calls fail or are slow, 2: no answer comes back for a while
			around := func(r *random.Source) faulty.Around {
				return func(ctx context.Context, c *faulty.Call, run func() error) error {
					mu.Lock()
					how := faults[r]
					mu.Unlock()
					wait := func(most time.Duration) {
						select {
						case <-time.After(r.Below(most)):
						case <-ctx.Done():
						}
					}
					switch how {
					case 1:
						wait(2 * time.Second)
						if r.OneIn(5) {
							return faulty.Failed(c)
						}
						if err := run(); err != nil || !r.OneIn(5) {
							return err
						}
						return faulty.Lost(c)
					case 2:
						if r.OneIn(2) {
							_ = run()
						}
						wait(3 * length)
						return faulty.Lost(c)
					}
					return run()
				}
			}
			var processes []*process
			var sources []*random.Source
			for range 3 {
				sources = append(sources, r.Child())
				processes = append(processes, w.start(around(sources[len(sources)-1]), nil))
			}
			for range 20 {
				i := r.IntN(len(processes))
				switch r.IntN(3) {
				case 0:
					processes[i].stop()
					<-processes[i].ended
					sources[i] = r.Child()
					processes[i] = w.start(around(sources[i]), nil)
				default:
					mu.Lock()
					faults[sources[i]] = r.IntN(3)
					mu.Unlock()
				}
				time.Sleep(r.Below(3 * length))
			}
			mu.Lock()
			clear(faults)
			mu.Unlock()
			time.Sleep(10 * length)
			if n := w.working(); n != 1 {
				t.Errorf("%d functions work at the end", n)
			}
		})
	}
}

// What the function returns before its context has ended is what Run returns, and the lease is free at once.
func TestFunctionReturns(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		broken := errors.New("broken")
		for _, want := range []error{nil, broken} {
			p := w.start(nil, func(context.Context) error { return want })
			<-p.ended
			if !errors.Is(p.err, want) {
				t.Errorf("Run returned %v, want %v", p.err, want)
			}
		}
		p := w.start(nil, func(context.Context) error { panic("of the test") })
		<-p.ended
		if !errors.Is(p.err, annals.ErrPanic) {
			t.Errorf("Run returned %v after a panic", p.err)
		}
		p = w.start(nil, func(ctx context.Context) error { <-ctx.Done(); return broken })
		w.begins(4, time.Millisecond)
		p.stop()
		<-p.ended
		if !errors.Is(p.err, broken) {
			t.Errorf("Run returned %v, want the error of a function whose last work failed", p.err)
		}
	})
}

// While a function that ignores the end of ctx works, the lease is kept.
func TestFunctionThatGoesOn(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		first := w.start(nil, func(context.Context) error { time.Sleep(time.Hour); return nil })
		w.begins(1, time.Millisecond)
		w.start(nil, nil)
		first.stop()
		time.Sleep(59 * time.Minute)
		w.wantBegun(1)
		<-first.ended
		w.begins(2, length/2)
	})
}

// The lease lasts from the begin of a write on, however late its answer comes.
func TestSlowAnswer(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		writes := 0
		w.start(func(_ context.Context, c *faulty.Call, run func() error) error {
			if c.Writes {
				writes++
			}
			switch {
			case writes < 2:
				return run()
			case writes == 2:
				defer time.Sleep(length / 10 * 4)
				return run()
			}
			return faulty.Failed(c)
		}, nil)
		w.begins(1, time.Millisecond)
		w.lease = time.Second // looks often
		w.start(nil, nil)
		w.begins(2, 2*length)
	})
}

// When the lease was lost, Run waits for it again, although the function returned an error.
func TestLost(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		down := make(chan struct{})
		p := w.start(func(_ context.Context, c *faulty.Call, run func() error) error {
			select {
			case <-down:
				return run()
			default:
			}
			if c.Writes && w.working() > 0 {
				return faulty.Failed(c)
			}
			return run()
		}, func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("its work failed because of the end of the context")
		})
		w.begins(1, time.Millisecond)
		time.Sleep(length*4/5 - time.Millisecond)
		if w.working() != 1 {
			t.Error("the context has ended before the lease may be lost")
		}
		w.begins(2, time.Minute)
		close(down)
		p.stop()
		<-p.ended
	})
}

func TestEndsWithStore(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		p := w.start(nil, nil)
		w.begins(1, time.Millisecond)
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
		if <-p.ended; !errors.Is(p.err, annals.ErrClosed) {
			t.Errorf("Run returned %v after the store was closed", p.err)
		}
	})
}

func TestRefused(t *testing.T) {
	t.Parallel()
	fn := func(context.Context, annals.SeqNr) error { return nil }
	for what, err := range map[string]error{
		"no store":        lease.Run(t.Context(), nil, "l", lease.Options{}, fn),
		"no name":         lease.Run(t.Context(), memstore.New(), "", lease.Options{}, fn),
		"no function":     lease.Run(t.Context(), memstore.New(), "l", lease.Options{}, nil),
		"short":           lease.Run(t.Context(), memstore.New(), "l", lease.Options{Lease: time.Millisecond}, fn),
		"negative":        lease.Run(t.Context(), memstore.New(), "l", lease.Options{Lease: -time.Minute}, fn),
		"an illegal name": lease.Run(t.Context(), memstore.New(), "\xff", lease.Options{}, fn),
	} {
		if !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A function that returns while the lease is being renewed is no failure of the renewal.
func TestReturnsDuringARenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		renews := make(chan struct{})
		writes := 0
		s := &faulty.Store{Store: memstore.New(), Around: func(ctx context.Context, c *faulty.Call, run func() error) error {
			if c.Writes {
				if writes++; writes == 2 {
					close(renews)
					<-ctx.Done()
					return faulty.Failed(c)
				}
			}
			return run()
		}}
		var log bytes.Buffer
		err := lease.Run(t.Context(), s, "l", lease.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(context.Context, annals.SeqNr) error {
			<-renews
			return nil
		})
		if err != nil || log.Len() > 0 {
			t.Errorf("%v, and logged is\n%s", err, log.String())
		}
	})
}
