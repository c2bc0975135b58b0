package projection_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

// spreading is a store that claims SpreadSlices.
type spreading struct{ annals.Store }

func (s spreading) Capabilities() annals.Capabilities {
	c := s.Store.Capabilities()
	c.SpreadSlices = true
	return c
}

// A projection of a store that claims it divides the slices by SpreadRanges, also when its position is in a store that does not claim it.
func TestSpreadRanges(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]target{"memory": inMemory(memstore.New()), "SQLite": inSQLite(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := spreading{memstore.New()}
			add(t, source, 1, 100, 2)
			var fails failing
			fails.set("T|3/2")
			r := must(t)(in.once("p", source, fails.handle, Options{Logger: silent, OnError: park}))
			if s := status(t, r.Control(), source); s.Lag != 200 || len(s.Ranges) != 0 {
				t.Errorf("before the first run: %+v", s)
			}
			catchUp(t, r)
			in.check(t, source, "T|3/2")
			s := status(t, r.Control(), source)
			if s.Lag != 0 || s.Parked != 1 || len(s.Ranges) != 4 {
				t.Errorf("after catching up: %+v", s)
			}
			for i, want := range annals.SpreadRanges(4) {
				if got := s.Ranges[i].Slices; got != want {
					t.Errorf("range %d is %v, want %v", i, got, want)
				}
			}
			catchUp(t, must(t)(in.once("p", source, fails.handle, Options{Logger: silent, OnError: park, Ranges: 16}))) // other ranges
			add(t, source, 90, 110, 1)
			if s := status(t, r.Control(), source); s.Lag != 21 || len(s.Ranges) != 16 {
				t.Errorf("with new events: lag %d in %d ranges", s.Lag, len(s.Ranges))
			}
			fails.set()
			if err := r.Control().Retry(t.Context(), "T|3"); err != nil {
				t.Fatal(err)
			}
			catchUp(t, r)
			in.check(t, source)
			newest := status(t, r.Control(), source).Newest
			if err := r.Control().Reset(t.Context(), annals.Offset{Time: newest.Time.Add(time.Hour)}); err != nil { // takes nothing back
				t.Fatal(err)
			}
			catchUp(t, r)
			in.check(t, source)
			if err := r.Control().Reset(t.Context(), annals.Offset{}); err != nil {
				t.Fatal(err)
			}
			if s := status(t, r.Control(), source); s.Lag != 221 {
				t.Errorf("after a reset: lag %d", s.Lag)
			}
		})
	}
}

// Positions of SliceRanges that were saved before a first run go on to count.
func TestSpreadRangesAfterPositions(t *testing.T) {
	t.Parallel()
	source, offsets := spreading{memstore.New()}, memstore.New()
	add(t, source, 1, 20, 1)
	through, err := source.Query().Newest(t.Context(), annals.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, slices := range annals.SliceRanges(2) {
		if err := offsets.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Slices: slices, Through: through}); err != nil {
			t.Fatal(err)
		}
	}
	add(t, source, 21, 30, 1)
	var handled atomic.Int64
	r := must(t)(AtLeastOnce("p", Source[int]{Store: source, Type: "T", Codec: numbers}, offsets, func(context.Context, envelope) error { handled.Add(1); return nil }, Options{}))
	catchUp(t, r)
	if n := handled.Load(); n != 10 {
		t.Errorf("handled %d events, want the 10 that are new", n)
	}
	if s := status(t, r.Control(), source); s.Lag != 0 || len(s.Ranges) != 4 || s.Ranges[0].Slices != annals.SliceRanges(4)[0] {
		t.Errorf("status %+v", s)
	}
}
