package projection_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

// running runs a Runner until end is called, or the test ends.
func running(t *testing.T, r *Runner) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := async(func() error { return r.Run(ctx) })
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return end
}

// counter is a read model in memory.
type counter struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *counter) count() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// runner counts events at least once. before, which may be nil, may wait: it holds no lock of a store.
func (c *counter) runner(t *testing.T, name string, source annals.Store, offsets annals.Store, before func()) *Runner {
	t.Helper()
	return must(t)(AtLeastOnce(name, Source[int]{Store: source, Type: "T", Codec: numbers}, offsets, func(_ context.Context, e envelope) error {
		if before != nil {
			before()
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.counts == nil {
			c.counts = map[string]int{}
		}
		c.counts[key(e)]++
		return nil
	}, Options{Logger: silent, Ranges: 1, BatchSize: 10}))
}

func status(t *testing.T, c *Control, source annals.Store) Status {
	t.Helper()
	s, err := c.Status(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		c := NewControl(store, "p")
		entered, leave := make(chan bool), make(chan bool)
		first := true
		var model counter
		running(t, model.runner(t, "p", store, store, func() {
			if first {
				first = false
				entered <- true
				<-leave
			}
		}))
		add(t, store, 1, 5, 2)
		<-entered
		paused := async(func() error { return c.Pause(t.Context()) })
		time.Sleep(time.Minute)
		select {
		case err := <-paused:
			t.Errorf("Pause did not wait for the handler: %v", err)
		default:
		}
		if !status(t, c, store).Paused {
			t.Error("the status is not paused")
		}
		close(leave)
		if err := <-paused; err != nil {
			t.Fatal(err)
		}
		before := len(model.count())
		add(t, store, 1, 20, 2)
		running(t, model.runner(t, "p", store, store, nil))
		time.Sleep(time.Minute)
		if after := len(model.count()); before != after {
			t.Errorf("%d events were handled before Pause returned, %d a minute later", before, after)
		}
		for _, x := range status(t, c, store).Ranges {
			if x.Runner != "" {
				t.Errorf("%v is held by %s", x.Slices, x.Runner)
			}
		}
		if err := errors.Join(c.Pause(t.Context()), c.Resume(t.Context())); err != nil { // a second Pause finds nothing to do
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := len(model.count()); n != 50 {
			t.Errorf("%d events were handled, want 50", n)
		}
	})
}

// A runner that shows no sign of life does not stop a Pause. When it comes back, it saves nothing.
func TestPauseWithoutAnswerOfARunner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		b := &breaks{at: 1 << 30}
		entered, leave := make(chan bool), make(chan bool)
		first := true
		var model counter
		running(t, model.runner(t, "p", store, breaking(store, b), func() {
			if first {
				first = false
				entered <- true
				<-leave
			}
		}))
		add(t, store, 1, 1, 3)
		<-entered
		b.kill()
		began := time.Now()
		c := NewControl(store, "p")
		if err := c.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 10*time.Second || took > 20*time.Second {
			t.Errorf("Pause took %v", took)
		}
		b.revive()
		close(leave)
		time.Sleep(time.Minute)
		if s := status(t, c, store); s.Lag != 3 || !s.Paused || s.Ranges[0].Runner != "" {
			t.Errorf("after the runner has come back: %+v", s)
		}
		if err := c.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if s := status(t, c, store); s.Lag != 0 || s.Paused || s.Ranges[0].Runner == "" {
			t.Errorf("after Resume: %+v", s)
		}
	})
}

func TestPauseEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		c := NewControl(store, "p")
		leave := make(chan bool)
		running(t, new(counter).runner(t, "p", store, store, func() { <-leave }))
		add(t, store, 1, 5, 2)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Pause(ctx); !errors.Is(err, context.DeadlineExceeded) || !status(t, c, store).Paused {
			t.Errorf("Pause returned %v", err)
		}
		paused := async(func() error { return c.Pause(t.Context()) })
		time.Sleep(time.Second)
		if err := c.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-paused; !errors.Is(err, annals.ErrConflict) {
			t.Errorf("Pause returned %v after Resume", err)
		}
		close(leave)
	})
}

func TestReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := inMemory(memstore.New())
		c := NewControl(in.store, "p")
		var f failing
		f.set("T|2/2", "T|3/5")
		running(t, must(t)(in.once("p", in.store, f.handle, Options{OnError: park, Logger: silent})))
		add(t, in.store, 1, 3, 3)
		time.Sleep(time.Minute)
		middle := time.Now()
		add(t, in.store, 1, 3, 3)
		time.Sleep(time.Minute)
		equal(t, "parked", parked(t, c), []string{"T|2/2", "T|3/5"})

		// T|3/5 comes again, T|2/2 does not.
		f.set()
		if err := c.Reset(t.Context(), annals.Offset{Time: middle}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		equal(t, "parked", parked(t, c), []string{"T|2/2"})
		equal(t, "handled", in.count(t), map[string]int{
			"T|1/1": 1, "T|1/2": 1, "T|1/3": 1, "T|1/4": 2, "T|1/5": 2, "T|1/6": 2,
			"T|2/1": 1,
			"T|3/1": 1, "T|3/2": 1, "T|3/3": 1, "T|3/4": 2, "T|3/5": 1, "T|3/6": 1,
		})

		if err := errors.Join(c.Pause(t.Context()), c.Reset(t.Context(), annals.Offset{})); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if s := status(t, c, in.store); !s.Paused || s.Lag != 18 || s.Parked != 0 {
			t.Errorf("after a reset to the beginning: %+v", s)
		}
		if err := c.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		equal(t, "handled", in.count(t), map[string]int{
			"T|1/1": 2, "T|1/2": 2, "T|1/3": 2, "T|1/4": 3, "T|1/5": 3, "T|1/6": 3,
			"T|2/1": 2, "T|2/2": 1, "T|2/3": 1, "T|2/4": 1, "T|2/5": 1, "T|2/6": 1,
			"T|3/1": 2, "T|3/2": 2, "T|3/3": 2, "T|3/4": 3, "T|3/5": 2, "T|3/6": 2,
		})
		// Nothing of what was parked before the reset is left.
		add(t, in.store, 2, 3, 1)
		time.Sleep(time.Minute)
		if n := in.count(t); n["T|2/7"] != 1 || n["T|3/7"] != 1 {
			t.Errorf("handled %v", n)
		}
	})
}

func TestControlOfAProjectionThatHasNotRun(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	catchUp(t, must(t)(inMemory(store).once("other", store, nil, Options{Logger: silent})))
	for name, c := range map[string]*Control{"no name": NewControl(store, ""), "no store": NewControl(nil, "p")} {
		_, noStatus := c.Status(t.Context(), store)
		var noList error
		for _, noList = range c.Parked(t.Context(), "") {
			break
		}
		for i, err := range []error{
			noStatus, noList, c.Pause(t.Context()), c.Resume(t.Context()), c.Reset(t.Context(), annals.Offset{}), c.Retry(t.Context()),
			c.Discard(t.Context(), "T|1", 1),
		} {
			if !errors.Is(err, annals.ErrInvalid) {
				t.Errorf("%s, %d: %v", name, i, err)
			}
		}
	}
}

// Before the first run a projection can be looked at and paused, and its first runner does nothing until it is resumed.
func TestControlBeforeTheFirstRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := inMemory(memstore.New())
		add(t, in.store, 1, 3, 2)
		runner := must(t)(in.once("p", in.store, nil, Options{Logger: silent}))
		c := NewControl(in.store, "p")
		for i, err := range []error{c.Reset(t.Context(), annals.Offset{}), c.Retry(t.Context()), c.Discard(t.Context(), "T|1", 1)} {
			if !errors.Is(err, annals.ErrInvalid) {
				t.Errorf("%d: %v", i, err)
			}
		}
		for range 2 {
			if s := status(t, c, in.store); s.Name != "p" || len(s.Ranges) != 0 || !s.LagAtLeast || s.Lag != 0 || s.Parked != 0 {
				t.Errorf("status %+v", s)
			}
			if s := status(t, runner.Control(), in.store); s.Type != "T" || len(s.Ranges) != 0 || s.LagAtLeast || s.Lag != 6 || s.Newest.SeqNr != 2 {
				t.Errorf("status with the runner %+v", s)
			}
			equal(t, "parked", parked(t, c), []string(nil))
			if err := c.Pause(t.Context()); err != nil { // the second round is of a paused one
				t.Fatal(err)
			}
		}
		running(t, runner)
		time.Sleep(time.Minute)
		if s := status(t, c, in.store); !s.Paused || s.Lag != 6 || len(s.Ranges) != 4 {
			t.Errorf("status of a paused one %+v", s)
		}
		if err := c.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		in.check(t, in.store)
	})
}

// No call of Control that fails and is repeated does harm.
func TestControlUnderFaults(t *testing.T) {
	t.Parallel()
	for _, m := range modes[:2] {
		var tripped atomic.Bool
		tripped.Store(true)
		for at := 1; tripped.Load(); at++ {
			synctest.Test(t, func(t *testing.T) {
				in := inMemory(memstore.New())
				b := &breaks{mode: m, at: at}
				c := NewControl(breaking(in.store.(*memstore.Store), b), "p")
				var f failing
				f.set("T|2/2", "T|3/3")
				running(t, must(t)(in.once("p", in.store, f.handle, Options{OnError: park, Logger: silent})))
				add(t, in.store, 1, 3, 3)
				time.Sleep(time.Minute)
				f.set()
				for _, call := range []func() error{
					func() (err error) {
						for _, err = range c.Parked(t.Context(), "") {
							_ = err // the last one counts
						}
						return err
					},
					func() error { _, err := c.Status(t.Context(), in.store); return err },
					func() error { return c.Retry(t.Context(), "T|2") },
					func() error { return c.Discard(t.Context(), "T|3", 3) },
					func() error { time.Sleep(time.Minute); return nil },
					func() error { return c.Pause(t.Context()) },
					func() error { return c.Reset(t.Context(), annals.Offset{}) },
					func() error { return c.Resume(t.Context()) },
				} {
					if err := call(); err != nil {
						if !annals.SafeToRetry(err) {
							t.Errorf("call %d: %v", at, err)
						}
						if err := call(); err != nil && !errors.Is(err, annals.ErrInvalid) { // what was ordered may have been carried out
							t.Errorf("call %d, again: %v", at, err)
						}
					}
				}
				time.Sleep(time.Minute)
				want := map[string]int{}
				for _, e := range []string{"T|1/1", "T|1/2", "T|1/3", "T|2/1", "T|2/2", "T|2/3", "T|3/1", "T|3/2"} {
					want[e] = 2
				}
				want["T|3/3"] = 1 // was discarded before the reset
				equal(t, "handled", in.count(t), want)
				tripped.Store(b.tripped())
			})
			if t.Failed() {
				return
			}
		}
	}
}
