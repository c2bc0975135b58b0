package projection_test

import (
	"context"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqlitestore"
)

// What a projection allocates for an event, beside what a loop over the query and the codec does.
func TestAllocationsOfAnEvent(t *testing.T) {
	const entities = 250
	each := 400
	if testing.Short() {
		each = 40
	}
	n := entities * each
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "events.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	payload, err := numbers.Encode(1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entities {
		c := annals.Commit{ID: annals.NewPersistenceID("T", strconv.Itoa(i)), Events: make([]annals.NewEvent, each)}
		for j := range c.Events {
			c.Events[j].Payload = payload
		}
		if _, err := store.Journal().Append(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	measure := func(fn func()) (allocs, bytes float64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		fn()
		runtime.ReadMemStats(&after)
		return float64(after.Mallocs-before.Mallocs) / float64(n), float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
	}
	allocs, bytes := measure(func() {
		for e, err := range store.Query().Events(t.Context(), annals.Filter{Type: "T"}) {
			if err == nil {
				_, err = numbers.Decode(e.Payload)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Logf("the loop: %.2f allocations, %.0f bytes", allocs, bytes)
	source, handled := Source[int]{Store: store, Type: "T", Codec: numbers}, 0
	single := func(context.Context, memstore.Tx, envelope) error { handled++; return nil }
	grouped := func(_ context.Context, _ memstore.Tx, es []envelope) error { handled += len(es); return nil }
	for name, c := range map[string]struct {
		runner *Runner
		bytes  float64 // more than the loop
	}{
		"single":  {must(t)(ExactlyOnce("p", source, memstore.New(), single, Options{Ranges: 1})), 350},
		"grouped": {must(t)(ExactlyOnceGrouped("p", source, memstore.New(), grouped, Options{Ranges: 1})), 600}, // which has a slice of envelopes
	} {
		handled = 0
		a, b := measure(func() { catchUp(t, c.runner) })
		t.Logf("%s: %.2f allocations, %.0f bytes", name, a, b)
		if handled != n || a > allocs+0.5 || b > bytes+c.bytes && !testing.Short() {
			t.Errorf("%s: %d of %d events handled; %.2f allocations and %.0f bytes for each, want at most %.2f and %.0f", name, handled, n, a, b, allocs+0.5, bytes+c.bytes)
		}
	}
}
