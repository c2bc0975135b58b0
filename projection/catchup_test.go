package projection_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

// CatchUp returns after the events that others handle, too: here the only range is that of another runner.
func TestCatchUpWhileAnotherRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := inMemory(memstore.New())
		running(t, must(t)(in.least("p", in.store, nil, Options{Ranges: 1})))
		time.Sleep(time.Second)
		for range 3 {
			add(t, in.store, 1, 20, 5)
			catchUp(t, must(t)(in.least("p", in.store, func(e envelope) error {
				t.Errorf("%s %d is handled by the runner without a range", e.ID, e.SeqNr)
				return nil
			}, Options{Ranges: 1})))
			in.check(t, in.store)
		}
	})
}

// slowPuts lets each write of a state take a while.
type slowPuts struct{}

func (slowPuts) Start(ctx context.Context, c annals.Call) context.Context {
	if c.Op == "put state" {
		time.Sleep(200 * time.Millisecond)
	}
	return ctx
}

func (slowPuts) End(context.Context, annals.Call, annals.Result) {}

// CatchUp returns after the last write of its own workers, also when that comes long after the last event: here the list of the slices with
// parked entities.
func TestCatchUpWaitsForItsWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, err := memstore.Open(memstore.Options{Observer: slowPuts{}})
		if err != nil {
			t.Fatal(err)
		}
		in, broken := inMemory(store), true
		add(t, store, 1, 50, 1)
		r := must(t)(in.once("p", store, func(envelope) error {
			if broken {
				return errBroken
			}
			return nil
		}, Options{OnError: park, Logger: silent, Ranges: 1}))
		catchUp(t, r)
		broken = false
		if err := r.Control().Retry(t.Context()); err != nil {
			t.Fatal(err)
		}
		catchUp(t, r)
		if list, err := ParkedSlices(t.Context(), store, "p"); err != nil || len(list) > 0 {
			t.Errorf("slices with parked entities: %v, %v", list, err)
		}
	})
}

// CatchUp ends with its context when others do not get on.
func TestCatchUpEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := inMemory(memstore.New())
		add(t, in.store, 1, 5, 1)
		r := must(t)(in.once("p", in.store, func(envelope) error { return errors.New("no") }, Options{Logger: silent}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.CatchUp(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("CatchUp: %v, want the context's error", err)
		}
	})
}

// CatchUp of a projection that is paused, or that is paused meanwhile, says so instead of waiting.
func TestCatchUpOfAPausedProjection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := inMemory(memstore.New())
		add(t, in.store, 1, 5, 1)
		fails := true
		r := must(t)(in.once("p", in.store, func(envelope) error {
			if fails {
				return errors.New("no")
			}
			return nil
		}, Options{Logger: silent}))
		if err := r.Control().Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := r.CatchUp(t.Context())
		if err := r.Control().Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		pause := time.AfterFunc(10*time.Second, func() { _ = r.Control().Pause(t.Context()) })
		defer pause.Stop()
		meanwhile := r.CatchUp(t.Context())
		for when, err := range map[string]error{"before": before, "meanwhile": meanwhile} {
			if !errors.Is(err, annals.ErrUnavailable) || !strings.Contains(err.Error(), "Control.Resume") {
				t.Errorf("CatchUp of a projection paused %s: %v", when, err)
			}
		}
		fails = false
		if err := r.Control().Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		catchUp(t, r)
		in.check(t, in.store)
	})
}

// Two runners share the ranges. When one has ended, the other handles the events of all ranges.
func TestRunnersShareAProjection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := inMemory(memstore.New())
		handled := make([]int, 2)
		var ends [2]func()
		for i := range handled {
			ends[i] = running(t, must(t)(in.once("p", in.store, func(envelope) error {
				handled[i]++ // in a transaction, and the store runs one at a time
				return nil
			}, Options{Ranges: 64})))
		}
		time.Sleep(time.Minute)
		add(t, in.store, 1, 50, 2)      // in the upper slices
		add(t, in.store, 1000, 1050, 2) // in the lower ones
		time.Sleep(time.Minute)
		in.check(t, in.store)
		if handled[0] == 0 || handled[1] == 0 {
			t.Errorf("the runners handled %v events", handled)
		}
		ends[0]()
		add(t, in.store, 1, 50, 2)
		add(t, in.store, 1000, 1050, 2)
		time.Sleep(time.Minute)
		in.check(t, in.store)
	})
}

// A range is handed over, and a projection paused, after the handler has returned: its context does not end, and each event is handled once.
func TestHandOverAfterTheBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var mu sync.Mutex
		handled := map[string]int{}
		run := func() (end func()) {
			return running(t, must(t)(AtLeastOnce("p", Source[int]{Store: store, Type: "T", Codec: numbers}, store, func(ctx context.Context, e envelope) error {
				select {
				case <-time.After(20 * time.Second):
				case <-ctx.Done():
					t.Errorf("%s %d: the context of the handler has ended", e.ID, e.SeqNr)
				}
				mu.Lock()
				defer mu.Unlock()
				handled[key(e)]++
				return nil
			}, Options{Ranges: 2})))
		}
		endOne := run()
		add(t, store, 1, 2, 1)       // in the upper slices
		add(t, store, 1000, 1001, 1) // in the lower ones
		time.Sleep(10 * time.Second)
		endTwo := run()
		time.Sleep(25 * time.Second)
		if err := NewControl(store, "p").Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := NewControl(store, "p").Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if want := map[string]int{"T|1/1": 1, "T|2/1": 1, "T|1000/1": 1, "T|1001/1": 1}; !maps.Equal(handled, want) {
			t.Errorf("handled %v, want %v", handled, want)
		}
		endOne()
		endTwo()
	})
}
