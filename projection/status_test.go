package projection_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, source := inMemory(memstore.New()), memstore.New() // the events are elsewhere
		c := NewControl(in.store, "p")
		var f failing
		f.set("T|2/2")
		add(t, source, 1, 8, 3)
		catchUp(t, must(t)(in.once("p", source, f.handle, Options{OnError: park, Logger: silent})))
		time.Sleep(time.Minute)
		s := status(t, c, source)
		if s.Name != "p" || s.Type != "T" || s.Tag != "" || s.Paused || len(s.Ranges) != 4 || s.Parked != 1 || s.Lag != 0 || s.LagTime != 0 {
			t.Errorf("after catching up: %+v", s)
		}
		for _, x := range s.Ranges {
			if x.Runner != "" || x.Epoch == 0 || x.Through.Time.IsZero() || x.Lag != 0 {
				t.Errorf("after catching up: %+v", x)
			}
		}
		add(t, source, 1, 8, 2)
		newest, err := source.Query().Newest(t.Context(), annals.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		add(t, source, 5, 5, 1)
		s = status(t, c, source)
		lag := 0
		for _, x := range s.Ranges {
			lag += x.Lag
		}
		if s.Lag != 17 || lag != 17 || s.LagAtLeast || s.LagTime < time.Minute || s.LagTime > time.Minute+time.Second || s.Newest.ID != "T|5" || s.Newest.Compare(newest) <= 0 {
			t.Errorf("with events that wait: %+v", s)
		}
		running(t, must(t)(in.once("p", source, f.handle, Options{OnError: park, Logger: silent})))
		time.Sleep(time.Minute)
		s = status(t, c, source)
		if s.Lag != 0 || s.Ranges[0].Runner == "" {
			t.Errorf("with a runner: %+v", s)
		}
	})
}

// What From leaves out is no lag and is not waited for, also while nothing has come after From.
func TestWhatFromLeavesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, events := inMemory(memstore.New()), memstore.New() // the record of the projection does not move the watermark of the events
		add(t, events, 1, 8, 3)
		time.Sleep(time.Hour)
		r := must(t)(in.once("p", events, nil, Options{From: annals.Offset{Time: time.Now()}}))
		running(t, r)
		time.Sleep(time.Second)
		if s := status(t, NewControl(in.store, "p"), events); s.Lag != 0 || s.LagTime != 0 {
			t.Errorf("the lag is %d events, %v", s.Lag, s.LagTime)
		}
		within, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Control().Await(within, events, "T|1", 3); err != nil {
			t.Error(err)
		}
		add(t, events, 1, 1, 1)
		time.Sleep(time.Second)
		if got := in.count(t); len(got) != 1 || got["T|1/4"] != 1 {
			t.Errorf("handled %v", got)
		}
	})
}

// Events beyond the position that were handled, because those of other entities were late, are not part of the lag, however many they are.
func TestStatusCountsNoHandledEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // in real time a slow CatchUp of no events ends before its ranges have begun
		in := inMemory(memstore.New())
		catchUp(t, must(t)(in.once("p", in.store, nil, Options{Logger: silent, Ranges: 1024})))
		add(t, in.store, 1, 2, 50)
		slice := annals.PersistenceID("T|2").Slice()
		for e, err := range in.store.Journal().Replay(t.Context(), "T|2", 49, 49) {
			if err != nil {
				t.Fatal(err)
			}
			if err := in.store.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Slices: annals.SliceRange{From: slice, To: slice + 1}, Offsets: []annals.Offset{e.Offset()}}); err != nil {
				t.Fatal(err)
			}
		}
		s := status(t, NewControl(in.store, "p"), in.store)
		if x := s.Ranges[slice]; x.Lag != 1 {
			t.Errorf("status %+v", x)
		}
		if !s.LagAtLeast { // of T|1, of whose events 9 are counted
			t.Errorf("lag %d, at least %v", s.Lag, s.LagAtLeast)
		}
	})
}

func TestStatusCountsToABound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := inMemory(memstore.New())
		catchUp(t, must(t)(in.once("p", in.store, nil, Options{Logger: silent})))
		add(t, in.store, 1, 1, 2500)
		if s := status(t, NewControl(in.store, "p"), in.store); s.Lag != 2500 || s.LagAtLeast {
			t.Errorf("lag %d, at least %v", s.Lag, s.LagAtLeast)
		}
		add(t, in.store, 1, 1, 1)
		if s := status(t, NewControl(in.store, "p"), in.store); s.Lag != 2500 || !s.LagAtLeast {
			t.Errorf("lag %d, at least %v", s.Lag, s.LagAtLeast)
		}
		newest, err := in.store.Query().Newest(t.Context(), annals.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		rest := annals.SliceRange{From: annals.PersistenceID("T|1").Slice() + 1, To: annals.SliceCount} // a part of the range has nothing to do
		if err := in.store.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Slices: rest, Through: newest}); err != nil {
			t.Fatal(err)
		}
		if s := status(t, NewControl(in.store, "p"), in.store); s.Lag != 2500 || !s.LagAtLeast {
			t.Errorf("lag %d, at least %v, of a range with two positions", s.Lag, s.LagAtLeast)
		}
	})
}

// Without a source no event is looked at.
func TestStatusWithoutSource(t *testing.T) {
	t.Parallel()
	in := inMemory(memstore.New())
	add(t, in.store, 1, 1, 3)
	catchUp(t, must(t)(in.once("p", in.store, nil, Options{Logger: silent})))
	add(t, in.store, 1, 1, 1)
	want := status(t, NewControl(in.store, "p"), in.store)
	s, err := NewControl(in.store, "p").Status(t.Context(), nil)
	if err != nil || s.Lag != 0 || !s.LagAtLeast || s.LagTime != 0 || s.Newest != (annals.Offset{}) || want.Lag != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if r := s.Ranges; len(r) != len(want.Ranges) || r[0].Through != want.Ranges[0].Through || r[0].Through == (annals.Offset{}) {
		t.Errorf("%+v, want those of %+v", r, want.Ranges)
	}
}

// The names in the JSON of what Control returns are stable.
func TestJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	for want, v := range map[string]any{
		`{"name":"p","type":"T","tag":"x","paused":true,"ranges":[{"slices":{"from":0,"to":512},"runner":"r","epoch":2,` +
			`"through":{"time":"2026-01-02T03:04:05.000006Z","id":"T|1","seqNr":3},"lag":4,"lagTime":5}],"parked":6,"lag":7,"lagAtLeast":true,` +
			`"lagTime":8,"newest":{"time":"2026-01-02T03:04:05.000006Z","id":"T|1","seqNr":3}}`: Status{
			Name: "p", Type: "T", Tag: "x", Paused: true, Parked: 6, Lag: 7, LagAtLeast: true, LagTime: 8,
			Newest: annals.Offset{Time: at, ID: "T|1", SeqNr: 3},
			Ranges: []RangeStatus{{
				Slices: annals.SliceRange{From: 0, To: 512}, Runner: "r", Epoch: 2,
				Through: annals.Offset{Time: at, ID: "T|1", SeqNr: 3}, Lag: 4, LagTime: 5,
			}},
		},
		`{"id":"T|1","from":2,"time":"2026-01-02T03:04:05.000006Z","kind":"constraint","error":"*errors.errorString",` +
			`"since":"2026-01-02T03:04:05.000006Z","tries":1,"retry":true,"discardTo":4}`: ParkedEntity{
			ID: "T|1", From: 2, Time: at, Kind: "constraint", Error: "*errors.errorString", Since: at, Tries: 1, Retry: true, DiscardTo: 4,
		},
	} {
		got, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "JSON", string(got), want)
	}
}
