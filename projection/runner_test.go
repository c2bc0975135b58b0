package projection_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
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

// The positions of former workers, whose ranges were cut differently, are at different places. Each range begins at the lowest of its
// positions and leaves out what the others cover.
func TestRangesThatAreCutDifferently(t *testing.T) {
	onStores(t, func(t *testing.T, in target) {
		add(t, in.store, 1, 60, 3)
		var events []annals.Event
		for e, err := range in.store.Query().Events(t.Context(), annals.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
		for _, before := range []int{1, 2, 16} {
			for _, now := range []int{1, 4, 32} {
				name := fmt.Sprintf("from %d to %d ranges", before, now)
				var positions []annals.Position
				for i, r := range annals.SliceRanges(before) {
					p := annals.Position{Slices: r}
					through := 37 * i % len(events)
					if through > 0 {
						p.Through = events[through-1].Offset()
					}
					for _, e := range events[through:] {
						if r.Contains(e.ID.Slice()) { // handled beyond Through
							p.Offsets = []annals.Offset{e.Offset()}
							break
						}
					}
					if err := in.store.Offsets().Save(t.Context(), annals.Progress{Projection: name, Slices: r, Through: p.Through, Offsets: p.Offsets}); err != nil {
						t.Fatal(err)
					}
					positions = append(positions, p)
				}
				want := map[string]int{}
				for _, e := range events {
					i := slices.IndexFunc(positions, func(p annals.Position) bool { return p.Slices.Contains(e.ID.Slice()) })
					covers := func(o annals.Offset) bool { return o.Covers(e.Offset()) }
					if !covers(positions[i].Through) && !slices.ContainsFunc(positions[i].Offsets, func(o annals.Offset) bool { return o.ID == e.ID && covers(o) }) {
						want[key(envelope{Event: e})] = 1
					}
				}
				var mu sync.Mutex
				got := map[string]int{}
				catchUp(t, must(t)(in.least(name, in.store, func(e envelope) error {
					mu.Lock()
					defer mu.Unlock()
					got[key(e)]++
					return nil
				}, Options{Ranges: now, Logger: silent})))
				if !maps.Equal(got, want) {
					t.Errorf("%s: handled %d events, want %d: %v", name, len(got), len(want), got)
				}
			}
		}
	})
}

func TestRunHandlesNewEventsUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := inMemory(memstore.New())
		end := running(t, must(t)(in.once("p", in.store, nil, Options{})))
		for range 10 {
			add(t, in.store, 1, 20, 2)
			time.Sleep(5 * time.Second)
			in.check(t, in.store)
		}
		end()
	})
}

// When a Runner is told to end, what its handler finishes then is saved, and not handled again.
func TestWhatIsHandledAtTheEndIsSaved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := inMemory(memstore.New())
		add(t, in.store, 1, 1, 3)
		ctx, cancel := context.WithCancel(t.Context())
		handled := 0
		r := must(t)(AtLeastOnce("p", Source[int]{Store: in.store, Codec: numbers}, in.store, func(context.Context, envelope) error {
			if handled++; handled == 2 {
				cancel()
				time.Sleep(time.Second)
			}
			return nil
		}, Options{Logger: silent, BatchSize: 2}))
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		catchUp(t, r)
		if handled != 3 {
			t.Errorf("3 events were handled %d times", handled)
		}
	})
}

func TestFaultsOfOptions(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	handle := func(context.Context, envelope) error { return nil }
	source := Source[int]{Store: s, Codec: numbers}
	for name, make := range map[string]func() (*Runner, error){
		"name":  func() (*Runner, error) { return AtLeastOnce("", source, s, handle, Options{}) },
		"store": func() (*Runner, error) { return AtLeastOnce("p", Source[int]{Codec: numbers}, s, handle, Options{}) },
		"codec": func() (*Runner, error) { return AtLeastOnce("p", Source[int]{Store: s}, s, handle, Options{}) },
		"faults of the codec": func() (*Runner, error) {
			return AtLeastOnce("p", Source[int]{Store: s, Codec: codec.Of[int](0, "number", nil, nil)}, s, handle, Options{})
		},
		"type": func() (*Runner, error) {
			return AtLeastOnce("p", Source[int]{Store: s, Type: "annals.x", Codec: numbers}, s, handle, Options{})
		},
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

// watches counts the watches of a store that have not ended.
type watches struct {
	annals.Store
	open *atomic.Int64
}

func (w watches) Watch(ctx context.Context, _ annals.Filter) (<-chan annals.SliceRange, error) {
	w.open.Add(1)
	context.AfterFunc(ctx, func() { w.open.Add(-1) })
	return make(chan annals.SliceRange), nil
}

// A range whose steps fail watches the store of the events once, however often it begins again.
func TestWatchesOfARangeThatBeginsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, open := inMemory(memstore.New()), atomic.Int64{}
		in.faults.around = func(run func() error) error { return run() }
		in.faults.commit = func() error { return &annals.Error{Op: "test", Kind: annals.ErrCorrupt} }
		add(t, in.store, 1, 1, 1)
		running(t, must(t)(in.once("p", watches{in.store, &open}, nil, Options{Logger: silent, Ranges: 1})))
		time.Sleep(time.Minute)
		if n := open.Load(); n > 1 {
			t.Errorf("%d watches are open", n)
		}
	})
}
