package projection_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

// counted is s, whose calls with the operation op are counted.
func counted(s annals.Store, op string) (annals.Store, func() int) {
	var mu sync.Mutex
	n := 0
	return &faulty.Store{Store: s, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
			if c.Op == op {
				mu.Lock()
				n++
				mu.Unlock()
			}
			return run()
		}}, func() int {
			mu.Lock()
			defer mu.Unlock()
			return n
		}
}

// A handler takes some time. A Control of the Runner is woken when the event is handled, and reads the position no more than once a second
// until then. Another one polls, and is late by an eighth of the time at most.
func TestAwaitIsWokenOrPolls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		takes time.Duration
		woken bool
		late  time.Duration
		reads int
	}{
		{100 * time.Millisecond, true, 0, 2},
		{4 * time.Second, true, 0, 6},
		{50 * time.Millisecond, false, 10 * time.Millisecond, 8},
		{100 * time.Millisecond, false, 16 * time.Millisecond, 13},
		{time.Second, false, 130 * time.Millisecond, 32},
		{10 * time.Second, false, 250 * time.Millisecond, 74},
	} {
		t.Run(fmt.Sprintf("%v, woken: %v", c.takes, c.woken), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				var handled time.Time
				r := must(t)(inMemory(mem).once("p", mem, func(envelope) error {
					time.Sleep(c.takes)
					handled = time.Now()
					return nil
				}, Options{Logger: silent}))
				running(t, r)
				time.Sleep(time.Minute)
				positions, reads := counted(mem, "load offsets")
				control := NewControl(positions, "p")
				if c.woken {
					control = r.Control().With(positions)
				}
				add(t, mem, 1, 1, 1)
				if err := control.Await(t.Context(), mem, "T|1", 1); err != nil {
					t.Fatal(err)
				}
				if late := time.Since(handled); handled.IsZero() || late > c.late {
					t.Errorf("it returned %v after the event was handled, want at most %v", late, c.late)
				}
				if n := reads(); n > c.reads {
					t.Errorf("it read the position %d times, want at most %d", n, c.reads)
				}
				if err := control.Await(t.Context(), mem, "T|1", 1); err != nil || reads() > c.reads+1 {
					t.Error("an event that has been handled took several reads", err)
				}
			})
		})
	}
}

// While an event is not stored, what the projection follows is read once.
func TestAwaitOfAnEventThatIsNotStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		r := must(t)(inMemory(mem).once("p", mem, func(envelope) error { return nil }, Options{Logger: silent}))
		running(t, r)
		time.Sleep(time.Minute)
		for woken, want := range map[bool]int{true: 0, false: 1} {
			records, reads := counted(mem, "get state")
			control := NewControl(records, "p")
			if woken {
				control = r.Control().With(records)
			}
			ctx, end := context.WithTimeout(t.Context(), 10*time.Second)
			if err := control.Await(ctx, mem, "T|1", 1); !errors.Is(err, annals.ErrUnavailable) || reads() != want {
				t.Errorf("%v after %d reads of the record, want %d", err, reads(), want)
			}
			end()
		}
	})
}

// What Await waits for, on each store.
func TestAwait(t *testing.T)          { onStores(t, awaitEverything) }
func TestAwaitOnServers(t *testing.T) { onServers(t, awaitEverything) }

func awaitEverything(t *testing.T, in target) {
	var f failing
	f.set("T|2/2")
	r := must(t)(in.once("p", in.store, f.handle, Options{OnError: park, Logger: silent, Lease: time.Second, Poll: 50 * time.Millisecond}))
	elsewhere := NewControl(in.store, "p")
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	await := func(c *Control, id annals.PersistenceID, n annals.SeqNr, kinds ...error) {
		t.Helper()
		err := c.Await(ctx, in.store, id, n)
		if len(kinds) == 0 && err != nil {
			t.Fatalf("%s/%d: %v", id, n, err)
		}
		for _, kind := range kinds {
			if !errors.Is(err, kind) {
				t.Errorf("%s/%d: %v, want %v", id, n, err, kind)
			}
		}
		if key := fmt.Sprintf("%s/%d", id, n); err == nil && in.count(t)[key] != 1 {
			t.Errorf("%s was handled %d times", key, in.count(t)[key])
		}
	}
	early := async(func() error { return elsewhere.Await(ctx, in.store, "T|1", 4) }) // before the first run, and before the event
	add(t, in.store, 1, 3, 3)
	running(t, r)
	for n := annals.SeqNr(3); n > 0; n-- {
		await(elsewhere, "T|1", n)
		await(r.Control(), "T|3", n)
	}
	add(t, in.store, 1, 1, 1)
	if err := <-early; err != nil || in.count(t)["T|1/4"] != 1 {
		t.Error("the event that was stored later:", err)
	}
	await(elsewhere, "U|1", 1, annals.ErrInvalid)
	await(elsewhere, "T|1", 0, annals.ErrInvalid)
	await(NewControl(in.store, ""), "T|1", 1, annals.ErrInvalid)

	await(elsewhere, "T|2", 1)
	await(elsewhere, "T|2", 2, ErrParked, annals.ErrUnavailable)
	await(r.Control(), "T|2", 3, ErrParked)
	f.set("T|2/3")
	if err := elsewhere.Retry(ctx, "T|2"); err != nil {
		t.Fatal(err)
	}
	await(elsewhere, "T|2", 2)
	await(r.Control(), "T|2", 3, ErrParked)
	if err := elsewhere.Discard(ctx, "T|2", 3); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(elsewhere.Await(ctx, in.store, "T|2", 3), r.Control().Await(ctx, in.store, "T|2", 3)); err != nil || in.count(t)["T|2/3"] != 0 {
		t.Error("the event that was discarded:", err)
	}

	// In place of a number that was deleted, the next event counts. Where there is none, there is nothing to wait for.
	if err := in.store.Journal().DeleteTo(ctx, "T|1", 2); err != nil {
		t.Fatal(err)
	}
	await(elsewhere, "T|1", 1)
	if err := in.store.Journal().DeleteTo(ctx, "T|1", annals.MaxSeqNr); err != nil {
		t.Fatal(err)
	}
	await(elsewhere, "T|1", 4)

	// What a reset takes back is waited for.
	c := r.Control()
	if err := errors.Join(c.Pause(ctx), c.Reset(ctx, annals.Offset{})); err != nil {
		t.Fatal(err)
	}
	short, done := context.WithTimeout(ctx, 100*time.Millisecond)
	defer done()
	if err := c.Await(short, in.store, "T|3", 3); !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it is paused: %v", err)
	}
	f.set()
	if err := errors.Join(c.Resume(ctx), elsewhere.Await(ctx, in.store, "T|3", 3)); err != nil || in.count(t)["T|3/3"] != 2 {
		t.Errorf("after the reset it was handled %d times, %v", in.count(t)["T|3/3"], err)
	}
}

// An event without the tag counts as handled when the position has passed it.
func TestAwaitByTag(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		r := must(t)(AtLeastOnce("p", Source[int]{Store: s, Tag: "a", Codec: numbers}, memstore.New(), func(context.Context, envelope) error {
			time.Sleep(time.Minute)
			return nil
		}, Options{Logger: silent}))
		running(t, r)
		time.Sleep(time.Minute)
		p, _ := numbers.Encode(1)
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Payload: p, Tags: []string{"a"}}, {Payload: p}}}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := r.Control().Await(t.Context(), s, "T|1", 2); err != nil || time.Since(began) < time.Minute || time.Since(began) > 76*time.Second {
			t.Errorf("the event without the tag: %v after %v", err, time.Since(began))
		}
		add(t, s, 1, 1, 1)
		within, cancel := context.WithTimeout(t.Context(), 16*time.Second)
		defer cancel()
		if err := r.Control().Await(within, s, "T|1", 3); err != nil {
			t.Errorf("the last event of the store, without the tag: %v", err)
		}
	})
}

// The entity of a parked event was forgotten and begins again, before Control.Forget: its events wait, too.
func TestAwaitOfAParkedEntityThatBeginsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		in := inMemory(mem)
		var f failing
		f.set("T|1/3")
		r := must(t)(in.once("p", mem, f.handle, Options{OnError: park, Logger: silent}))
		running(t, r)
		add(t, mem, 1, 1, 3)
		if err := errors.Join(r.Control().Await(t.Context(), mem, "T|1", 2), mem.Journal().DeleteTo(t.Context(), "T|1", 3)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := mem.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "T|1"}); err != nil {
			t.Fatal(err)
		}
		add(t, mem, 1, 1, 1)
		if err := r.Control().Await(t.Context(), mem, "T|1", 1); !errors.Is(err, ErrParked) || in.count(t)["T|1/1"] != 1 {
			t.Errorf("%v, and it was handled %d times, want once by the entity before", err, in.count(t)["T|1/1"])
		}
	})
}

// Of durable states the number is the revision: a later one counts too, and a delete.
func TestAwaitStates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l := memstore.New(), &stateLog{broken: []string{"2/1=1"}}
		r := l.runner(t, s, "T")
		running(t, r)
		for _, c := range []*Control{r.Control(), NewControl(s, "p")} {
			next := async(func() error { return c.Await(t.Context(), s, "T|1", 3) })
			put(t, s, "1", 1, false)
			put(t, s, "1", 2, false)
			if err := errors.Join(c.Await(t.Context(), s, "T|1", 1), c.Await(t.Context(), s, "T|1", 2)); err != nil {
				t.Fatal(err)
			}
			put(t, s, "1", 3, true)
			if err := errors.Join(<-next, c.Await(t.Context(), s, "T|1", 1)); err != nil {
				t.Fatal(err)
			}
			equal(t, "handled", l.take(), []string{"1/2=2", "1/3 deleted"})
			put(t, s, "2", 1, false)
			if err := c.Await(t.Context(), s, "T|2", 1); !errors.Is(err, ErrParked) {
				t.Error("a parked entity:", err)
			}
			s, l = memstore.New(), &stateLog{broken: l.broken}
			running(t, l.runner(t, s, "T"))
		}
	})
}

// Three processes share a projection, requests fail, and answers are lost. When Await returns nil, the event has had its effect, once.
func TestAwaitUnderFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := memstore.New()
		in := inMemory(model)
		var controls []*Control
		random := random.New(t)
		for range 3 {
			p := faulty.NewTx(model, func(_ context.Context, c *faulty.Call, run func() error) error {
				switch roll := random.IntN(100); {
				case c.InTx || roll >= 6:
					return run()
				case roll >= 3:
					return faulty.Failed(c)
				}
				if err := run(); err != nil {
					return err
				}
				return faulty.Lost(c)
			})
			r := must(t)(ExactlyOnce("p", Source[int]{Store: p, Codec: numbers}, p, func(_ context.Context, tx memstore.Tx, e envelope) error {
				return countIn(tx, e)
			}, Options{Logger: silent, Lease: time.Second}))
			running(t, r)
			controls = append(controls, r.Control(), NewControl(p, "p"))
		}
		var all sync.WaitGroup
		for i, c := range controls {
			all.Go(func() {
				for n := range annals.SeqNr(30) {
					add(t, model, i, i, 1)
					id := annals.NewPersistenceID("T", fmt.Sprint(i))
					if err := c.Await(t.Context(), model, id, n+1); err != nil {
						t.Error(err)
					}
					if k := fmt.Sprintf("%s/%d", id, n+1); in.count(t)[k] != 1 {
						t.Errorf("%s was handled %d times", k, in.count(t)[k])
					}
				}
			})
		}
		all.Wait()
	})
}
