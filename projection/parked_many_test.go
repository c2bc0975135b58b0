package projection_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

// many is how many entities are parked at the same time: make soak has 100,000.
var many = flag.Int("parked", 2000, "how many entities of a projection are parked")

// All entities are parked, listed in pages and retried, by runners that are started again in between.
func TestManyParkedEntities(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		store := memstore.New()
		parkMany(t, store, func(handle func(envelope) error, o Options) (*Runner, error) {
			source := Source[int]{Store: store, Type: "T", Codec: numbers}
			return AtLeastOnce("p", source, store, func(_ context.Context, e envelope) error { return handle(e) }, o)
		})
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		in := inSQLite(t)
		parkMany(t, in.store, func(handle func(envelope) error, o Options) (*Runner, error) {
			return in.once("p", in.store, handle, o)
		})
	})
}

func parkMany(t *testing.T, store annals.Store, make func(handle func(envelope) error, o Options) (*Runner, error)) {
	t.Helper()
	n := *many
	if testing.Short() {
		n /= 5
	}
	for i := range n {
		addFirst(t, store, i)
	}
	var repaired atomic.Bool
	var handled atomic.Int64
	run := func() {
		t.Helper()
		r := must(t)(make(func(envelope) error {
			if !repaired.Load() {
				return errBroken
			}
			handled.Add(1)
			return nil
		}, Options{OnError: park, Logger: silent}))
		if err := r.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	run()
	c := NewControl(store, "p")
	if s := status(t, c, store); s.Parked != n || s.Lag != 0 {
		t.Fatalf("%d are parked, %d events wait; want %d, 0", s.Parked, s.Lag, n)
	}
	seen, last := map[annals.PersistenceID]bool{}, annals.PersistenceID("")
	page := n / 3
	for len(seen) < n {
		before := len(seen)
		for x, err := range c.Parked(t.Context(), last) {
			if err != nil {
				t.Fatal(err)
			}
			seen[x.ID], last = true, x.ID
			if len(seen) == before+page {
				break
			}
		}
		if want := min(before+page, n); len(seen) != want {
			t.Fatalf("%d entities after a page, want %d", len(seen), want)
		}
	}
	run() // reads all of them

	repaired.Store(true)
	if err := c.Retry(t.Context()); err != nil {
		t.Fatal(err)
	}
	run()
	if got := int(handled.Load()); got != n {
		t.Errorf("%d events were handled, want %d", got, n)
	}
	if s := status(t, c, store); s.Parked != 0 {
		t.Errorf("%d are parked after the retry", s.Parked)
	}
	list, err := ParkedSlices(t.Context(), store, "p")
	if err != nil || len(list) > 0 {
		t.Errorf("slices with parked entities: %v, %v", list, err)
	}
}

// addFirst appends the first event of entity i.
func addFirst(t *testing.T, s annals.Store, i int) {
	t.Helper()
	p, err := numbers.Encode(1)
	if err == nil {
		_, err = s.Journal().Append(t.Context(), annals.Commit{ID: annals.NewPersistenceID("T", strconv.Itoa(i)), Events: []annals.NewEvent{{Payload: p}}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// calls counts the calls to a store for durable states and offsets.
type calls struct{ n, bytes atomic.Int64 }

func (c *calls) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }

func (c *calls) End(_ context.Context, call annals.Call, r annals.Result) {
	if slices.Contains([]string{"get state", "put state", "save offsets", "load positions", "load offsets"}, call.Op) {
		c.n.Add(1)
		c.bytes.Add(int64(r.Bytes))
	}
}

// To park an entity takes the same number of calls, however many are parked, and each is of a bounded size.
func TestCallsOfParking(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(target) maker{"once": func(in target) maker { return in.once }, "least": func(in target) maker { return in.least }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c calls
			store, err := memstore.Open(memstore.Options{Observer: &c})
			if err != nil {
				t.Fatal(err)
			}
			in := inMemory(store)
			runner := must(t)(make(in)("p", in.store, func(envelope) error { return errBroken }, Options{OnError: park, Logger: silent, Ranges: 1}))
			for round := range 4 {
				const n = 1000
				for i := range n {
					addFirst(t, store, round*n+i)
				}
				calls, bytes := c.n.Load(), c.bytes.Load()
				catchUp(t, runner)
				calls, bytes = c.n.Load()-calls, c.bytes.Load()-bytes
				t.Logf("round %d: %.1f calls, %d bytes for each", round, float64(calls)/n, bytes/n)
				// A call reads and one writes the slice, one or two save; the list of slices is read and written for the first entity of each.
				if most := int64(5*n + 3*annals.SliceCount); calls > most {
					t.Errorf("round %d: %d calls, want at most %d", round, calls, most)
				}
				if bytes > n*10_000 {
					t.Errorf("round %d: %d bytes for each entity", round, bytes/n)
				}
			}
		})
	}
}

// An order that is given while another one is carried out is carried out, too: during a step of several events, and of the one that fails.
func TestOrderWhileARetryFails(t *testing.T) {
	t.Parallel()
	for name, handles := range map[string][]annals.SeqNr{"discard": {1, 3}, "retry": {1, 2, 3}} {
		for during := 1; during <= 2; during++ {
			synctest.Test(t, func(t *testing.T) {
				s, calls, works := memstore.New(), -100, false
				var handled []annals.SeqNr
				c := NewControl(s, "p")
				r := must(t)(AtLeastOnce("p", Source[int]{Store: s, Type: "T", Codec: numbers}, s, func(ctx context.Context, e envelope) (err error) {
					if e.SeqNr != 2 || works {
						handled = append(handled, e.SeqNr)
						return nil
					}
					if calls++; calls == during {
						if works = name == "retry"; works {
							err = c.Retry(ctx, e.ID)
						} else {
							err = c.Discard(ctx, e.ID, 2)
						}
						if err != nil {
							t.Error(err)
						}
					}
					return errBroken
				}, Options{Logger: silent, OnError: park}))
				add(t, s, 1, 1, 3)
				catchUp(t, r)
				calls = 0
				if err := c.Retry(t.Context()); err != nil {
					t.Fatal(err)
				}
				end := running(t, r)
				time.Sleep(time.Minute)
				end()
				what := fmt.Sprintf("%s during call %d: ", name, during)
				equal(t, what+"handled", handled, handles)
				equal(t, what+"parked", list(t, c), []ParkedEntity(nil))
			})
		}
	}
}
