package projection_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

func TestHandlesEachEventOnceAndGoesOn(t *testing.T) {
	onStores(t, func(t *testing.T, in target) {
		for name, make := range map[string]maker{
			"once": in.once, "group": in.group, "least": in.least,
		} {
			t.Run(name, func(t *testing.T) {
				var mu sync.Mutex
				last := map[annals.PersistenceID]annals.SeqNr{}
				var handled int
				for range 3 { // the second and third go on where the one before ended
					add(t, in.store, 1, 20, 7)
					add(t, in.store, 10, 40, 1)
					r := must(t)(make(name, in.store, func(e envelope) error {
						mu.Lock()
						defer mu.Unlock()
						if e.SeqNr != last[e.ID]+1 || e.Value != int(e.SeqNr) || e.Time.IsZero() {
							t.Errorf("%s %d with the value %d and time %v after number %d", e.ID, e.SeqNr, e.Value, e.Time, last[e.ID])
						}
						last[e.ID] = e.SeqNr
						handled++
						return nil
					}, Options{BatchSize: 16}))
					catchUp(t, r)
				}
				all := 0
				for _, err := range in.store.Query().Events(t.Context(), annals.Filter{Type: "T"}) {
					if err != nil {
						t.Fatal(err)
					}
					all++
				}
				if handled != all || all < 3*171 {
					t.Errorf("handled %d of %d events", handled, all)
				}
			})
		}
	})
}

func TestReadModelInAnotherStore(t *testing.T) {
	onStores(t, func(t *testing.T, in target) {
		events := memstore.New()
		for range 2 {
			add(t, events, 1, 50, 3)
			catchUp(t, must(t)(in.once("p", events, nil, Options{})))
		}
		in.check(t, events)
		if p, err := events.Offsets().Load(t.Context(), "p", annals.SliceRange{}); err != nil || len(p) != 1 || !p[0].Through.Time.IsZero() {
			t.Errorf("the position is in the store of the events: %v, %v", p, err)
		}
	})
}

func TestRangesThatAreCutDifferently(t *testing.T) {
	onStores(t, func(t *testing.T, in target) {
		for _, ranges := range []int{4, 1, 16, 2, 1024, 4} {
			add(t, in.store, 1, 30, 2)
			catchUp(t, must(t)(in.once("p", in.store, nil, Options{Ranges: ranges})))
			in.check(t, in.store)
		}
	})
}

// Ranges that have come to different places become one: it starts at the lowest of them and leaves out what the others have handled.
func TestStartsAtTheLowestOfSeveralPositions(t *testing.T) {
	onStores(t, func(t *testing.T, in target) {
		add(t, in.store, 1, 30, 2)
		stop := errors.New("stop")
		r := must(t)(in.once("p", in.store, func(e envelope) error {
			if e.ID.Slice() < 256 {
				return stop
			}
			return nil
		}, Options{Logger: silent, BatchSize: 1}))
		ctx, cancel := context.WithCancel(t.Context())
		var once sync.Once
		go func() {
			for range 1_000_000 {
				n := 0
				for k := range in.count(t) {
					_ = k
					n++
				}
				if n > 35 {
					once.Do(cancel)
					return
				}
				runtime.Gosched()
			}
		}()
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		add(t, in.store, 20, 40, 2)
		catchUp(t, must(t)(in.once("p", in.store, nil, Options{Ranges: 1})))
		in.check(t, in.store)
	})
}

// Two runners share the ranges of a projection.
func TestTwoRunnersOfOneProjection(t *testing.T) {
	onStores(t, twoRunners)
}

func twoRunners(t *testing.T, in target) {
	t.Helper()
	add(t, in.store, 1, 40, 5)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { catchUp(t, must(t)(in.once("p", in.store, nil, Options{Logger: silent, BatchSize: 3}))) })
	}
	both.Wait()
	in.check(t, in.store)
}

func TestRunHandlesNewEventsUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := inMemory(memstore.New())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- must(t)(in.once("p", in.store, nil, Options{})).Run(ctx) }()
		for range 10 {
			add(t, in.store, 1, 20, 2)
			time.Sleep(5 * time.Second)
			in.check(t, in.store)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestFaultsOfOptions(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	handle := func(context.Context, envelope) error { return nil }
	source := Source[int]{Store: s, Codec: numbers}
	for name, make := range map[string]func() (*Runner, error){
		"name":      func() (*Runner, error) { return AtLeastOnce("", source, s, handle, Options{}) },
		"store":     func() (*Runner, error) { return AtLeastOnce("p", Source[int]{Codec: numbers}, s, handle, Options{}) },
		"codec":     func() (*Runner, error) { return AtLeastOnce("p", Source[int]{Store: s}, s, handle, Options{}) },
		"offsets":   func() (*Runner, error) { return AtLeastOnce("p", source, nil, handle, Options{}) },
		"handler":   func() (*Runner, error) { return AtLeastOnce("p", source, s, nil, Options{}) },
		"ranges":    func() (*Runner, error) { return AtLeastOnce("p", source, s, handle, Options{Ranges: 3}) },
		"BatchSize": func() (*Runner, error) { return AtLeastOnce("p", source, s, handle, Options{BatchSize: -1}) },
		"Lease":     func() (*Runner, error) { return AtLeastOnce("p", source, s, handle, Options{Lease: 1}) },
		"Poll":      func() (*Runner, error) { return AtLeastOnce("p", source, s, handle, Options{Poll: -1}) },
		"into":      func() (*Runner, error) { return ExactlyOnceGrouped[int, memstore.Tx]("p", source, nil, nil, Options{}) },
	} {
		if r, err := make(); r != nil || !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}
