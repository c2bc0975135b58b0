package query_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/late"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/query"
)

// numbers returns the numbers of all events, and fails t for an error.
func numbers(t *testing.T, all iter.Seq2[annals.Event, error]) (ns []annals.SeqNr) {
	t.Helper()
	for e, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		ns = append(ns, e.SeqNr)
	}
	return ns
}

// What ends, and with which events (the names are those of the plugins' cases).
func TestCurrentEventsOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		deleted, from, to annals.SeqNr
		live              bool
		want              []annals.SeqNr
		skipped           []annals.SeqNr
	}{
		"all":                  {0, 0, annals.MaxSeqNr, false, []annals.SeqNr{1, 2, 3}, nil},
		"to 2":                 {0, 0, 2, false, []annals.SeqNr{1, 2}, nil},
		"from 2":               {0, 2, annals.MaxSeqNr, false, []annals.SeqNr{2, 3}, nil},
		"all deleted":          {3, 0, annals.MaxSeqNr, false, nil, []annals.SeqNr{1, 3}},
		"all deleted, 0 to 0":  {3, 0, 0, false, nil, nil},
		"deleted to 2":         {2, 0, annals.MaxSeqNr, false, []annals.SeqNr{3}, []annals.SeqNr{1, 2}},
		"0 to 0":               {0, 0, 0, false, nil, nil},
		"beyond the end":       {0, 4, 3, false, nil, nil},
		"live to 3":            {0, 0, 3, true, []annals.SeqNr{1, 2, 3}, nil},
		"live to 3, deleted":   {3, 0, 3, true, nil, []annals.SeqNr{1, 3}},
		"live to 0":            {0, 0, 0, true, nil, nil},
		"live to 3, 2 deleted": {2, 2, 3, true, []annals.SeqNr{3}, []annals.SeqNr{2, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := memstore.New()
			write(t, s, "T|1", 3)
			if err := s.Journal().DeleteTo(t.Context(), "T|1", c.deleted); err != nil {
				t.Fatal(err)
			}
			var skipped []annals.SeqNr
			o := query.Options{Current: !c.live, OnSkip: func(_ annals.PersistenceID, from, to annals.SeqNr) { skipped = append(skipped, from, to) }}
			if got := numbers(t, query.EventsOf(t.Context(), s, "T|1", c.from, c.to, o)); !slices.Equal(got, c.want) || !slices.Equal(skipped, c.skipped) {
				t.Errorf("%v without %v, want %v without %v", got, skipped, c.want, c.skipped)
			}
		})
	}
}

// A current query does not yield what is written while it runs; a live one does, and ends after its last number.
func TestEventsOfWhileWriting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		write(t, s, "T|1", 3)
		next, stop := iter.Pull2(query.EventsOf(t.Context(), s, "T|1", 0, annals.MaxSeqNr, query.Options{Current: true}))
		defer stop()
		for want := range annals.SeqNr(3) {
			if e, err, ok := next(); err != nil || !ok || e.SeqNr != want+1 {
				t.Fatalf("%d, %v, %v", e.SeqNr, err, ok)
			}
			write(t, s, "T|1", 1)
		}
		if e, err, ok := next(); ok {
			t.Errorf("then %d, %v", e.SeqNr, err)
		}
		go func() {
			for range 4 {
				time.Sleep(time.Minute)
				write(t, s, "T|1", 1)
			}
		}()
		began := time.Now()
		if got := numbers(t, query.EventsOf(t.Context(), s, "T|1", 6, 9, query.Options{Poll: time.Hour})); !slices.Equal(got, []annals.SeqNr{6, 7, 8, 9}) {
			t.Errorf("live: %v", got)
		}
		if d := time.Since(began); d > 3*time.Minute+time.Second {
			t.Errorf("the write did not wake the query: it took %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for e, err := range query.EventsOf(ctx, s, "T|none", 0, annals.MaxSeqNr, query.Options{}) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("of an entity without events: %+v, %v", e, err)
			}
		}
	})
}

// Faults in between do not change what EventsOf yields.
func TestEventsOfRepeatsReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		s := late.New(late.Options{Fault: func(string) error {
			if calls++; calls%7 == 3 {
				return late.ErrInjected
			}
			return nil
		}})
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "T|1", Events: slices.Repeat([]annals.NewEvent{{Payload: annals.Payload{SerializerID: 1}}}, 50)}); err != nil {
			t.Fatal(err)
		}
		if got := numbers(t, query.EventsOf(t.Context(), s, "T|1", 0, 50, query.Options{})); len(got) != 50 || !slices.IsSorted(got) {
			t.Errorf("%v", got)
		}
	})
}

// Events yields by tag what fits, after an offset, to a limit; live, also with a long poll.
func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		write(t, s, "T|1", 2, "green")
		write(t, s, "T|2", 1, "red")
		write(t, s, "U|1", 2, "green")
		of := func(f annals.Filter, o query.Options) (found []string) {
			for e, err := range query.Events(t.Context(), s, f, o) {
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, fmt.Sprint(e.ID, " ", e.SeqNr))
			}
			return found
		}
		var first annals.Event
		for e, err := range query.Events(t.Context(), s, annals.Filter{}, query.Options{}) {
			if err != nil {
				t.Fatal(err)
			}
			first = e
			break
		}
		for _, c := range []struct {
			f       annals.Filter
			current bool
			want    []string
		}{
			{annals.Filter{}, true, []string{"T|1 1", "T|1 2", "T|2 1", "U|1 1", "U|1 2"}},
			{annals.Filter{Tag: "green"}, true, []string{"T|1 1", "T|1 2", "U|1 1", "U|1 2"}},
			{annals.Filter{Tag: "green", Type: "U"}, true, []string{"U|1 1", "U|1 2"}},
			{annals.Filter{Tag: "green", After: first.Offset()}, true, []string{"T|1 2", "U|1 1", "U|1 2"}},
			{annals.Filter{Limit: 3}, true, []string{"T|1 1", "T|1 2", "T|2 1"}},
			{annals.Filter{Limit: 2, After: first.Offset()}, false, []string{"T|1 2", "T|2 1"}},
			{annals.Filter{Tag: "blue"}, true, nil},
		} {
			if got := of(c.f, query.Options{Current: c.current}); !slices.Equal(got, c.want) {
				t.Errorf("%+v: %v, want %v", c.f, got, c.want)
			}
		}
		began := time.Now()
		time.AfterFunc(time.Minute, func() { write(t, s, "V|1", 1, "green") })
		if got := of(annals.Filter{Tag: "green", Type: "V", Limit: 1}, query.Options{Poll: time.Hour}); len(got) != 1 || time.Since(began) > time.Minute+time.Second {
			t.Errorf("live: %v after %v", got, time.Since(began))
		}
		for e, err := range query.Events(t.Context(), s, annals.Filter{Behind: time.Second}, query.Options{}) {
			if !errors.Is(err, annals.ErrInvalid) {
				t.Errorf("Behind: %+v, %v", e, err)
			}
		}
	})
}

// A second loop over a sequence begins and ends where the first one did.
func TestASecondLoop(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	write(t, s, "T|1", 4)
	all := query.Events(t.Context(), s, annals.Filter{}, query.Options{Current: true})
	var after annals.Offset
	for e, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		after = e.Offset()
		break
	}
	two := query.Events(t.Context(), s, annals.Filter{After: after, Limit: 2}, query.Options{Current: true})
	for range 2 {
		if got, want := numbers(t, two), []annals.SeqNr{2, 3}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// The states in which the library keeps its own data are handed over only to those who ask for their type.
func TestStatesOfTheLibrary(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	for _, id := range []annals.PersistenceID{"annals.projection|p", "T|1"} {
		if _, err := s.States().Put(t.Context(), annals.StateWrite{ID: id, Payload: annals.Payload{SerializerID: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	for entityType, want := range map[string]annals.PersistenceID{"": "T|1", "annals.projection": "annals.projection|p"} {
		var got []annals.PersistenceID
		for state, err := range query.States(t.Context(), s, annals.Filter{Type: entityType}, query.Options{Current: true}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, state.ID)
		}
		if len(got) != 1 || got[0] != want {
			t.Errorf("of type %q: got %v, want %v", entityType, got, want)
		}
	}
}

// Each entity's newest state comes, however late and out of order states become visible, and no state comes twice.
func TestStates(t *testing.T) {
	t.Parallel()
	for r := range random.Rounds(t, 30) {
		synctest.Test(t, func(t *testing.T) {
			s := late.New(late.Options{Seed: r.Uint64(), Fixed: r.OneIn(2)})
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
			defer stop()
			go func() {
				for round := range 300 {
					id := annals.NewPersistenceID("T", strconv.Itoa(round*7%30))
					last, _, err := s.States().Get(ctx, id)
					w := annals.StateWrite{ID: id, After: last.Revision, Payload: annals.Payload{SerializerID: 1}}
					if round%10 == 9 {
						_, err = s.States().Delete(ctx, w)
					} else if err == nil {
						_, err = s.States().Put(ctx, w)
					}
					if err != nil {
						t.Error(err)
					}
					time.Sleep(time.Duration(round%5) * 30 * time.Millisecond)
				}
			}()
			var watched annals.Store = s
			if r.OneIn(3) {
				watched = late.Watched{Store: s}
			}
			seen := map[annals.PersistenceID]annals.SeqNr{}
			for x, err := range query.States(ctx, watched, annals.Filter{Type: "T"}, query.Options{}) {
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					break
				}
				if seen[x.ID] >= x.Revision {
					t.Errorf("%s: revision %d after %d", x.ID, x.Revision, seen[x.ID])
				}
				seen[x.ID] = x.Revision
			}
			for x, err := range s.Query().States(t.Context(), annals.Filter{}) {
				if err != nil || seen[x.ID] != x.Revision {
					t.Errorf("%s: revision %d is there, %d came, %v", x.ID, x.Revision, seen[x.ID], err)
				}
			}
			n := 0
			for _, err := range query.States(t.Context(), watched, annals.Filter{Type: "T"}, query.Options{Current: true}) {
				if n++; err != nil {
					t.Error(err)
				}
			}
			if n != len(seen) || n != 30 {
				t.Errorf("%d states at the end, %d came", n, len(seen))
			}
		})
	}
}

// Each id comes once.
func TestIDs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		s := late.New(late.Options{Fault: func(op string) error {
			if calls++; op == "query ids" && calls%5 == 0 || op == "next value" && calls%97 == 0 {
				return late.ErrInjected
			}
			return nil
		}})
		add := func(ids ...annals.PersistenceID) {
			for _, id := range ids {
				if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: id, Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1}}}}); err != nil {
					t.Error(err)
				}
			}
		}
		add("T|a", "T|b", "T|c", "U|a")
		var got []annals.PersistenceID
		for id, err := range query.IDs(t.Context(), s, "T", query.Options{Current: true}) {
			if got = append(got, id); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, []annals.PersistenceID{"T|a", "T|b", "T|c"}) {
			t.Errorf("current: %v", got)
		}
		for _, err := range query.IDs(t.Context(), noIDs{s}, "T", query.Options{Current: true}) {
			if e := (*annals.Error)(nil); !errors.As(err, &e) || e.Op != "follow ids" || e.Kind != annals.ErrUnsupported {
				t.Errorf("a store without IDQueries: %v", err)
			}
		}
		time.AfterFunc(time.Minute, func() { add("T|d") })
		time.AfterFunc(2*time.Minute, func() {
			for i := range 100 {
				add(annals.NewPersistenceID("T", fmt.Sprint("A", i)))
			}
		})
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		seen := map[annals.PersistenceID]int{}
		for id, err := range query.IDs(ctx, s, "T", query.Options{}) {
			if err != nil {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				break
			}
			if seen[id]++; seen[id] > 1 {
				t.Errorf("%s came again", id)
			}
		}
		if len(seen) != 104 {
			t.Errorf("%d ids, want 104", len(seen))
		}
	})
}

// What watches the store ends with the loop.
func TestWatchEndsWithTheLoop(t *testing.T) {
	t.Parallel()
	s := &watches{Store: memstore.New()}
	write(t, s, "T|1", 1)
	for _, err := range query.Events(t.Context(), s, annals.Filter{}, query.Options{}) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	for _, err := range query.EventsOf(t.Context(), s, "T|1", 1, annals.MaxSeqNr, query.Options{}) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if len(s.begun) != 2 {
		t.Fatalf("%d watches", len(s.begun))
	}
	for _, ctx := range s.begun {
		if ctx.Err() == nil {
			t.Error("a watch goes on")
		}
	}
}

type watches struct {
	*memstore.Store
	begun []context.Context
}

func (w *watches) Watch(ctx context.Context, f annals.Filter) (<-chan annals.SliceRange, error) {
	w.begun = append(w.begun, ctx)
	return w.Store.Unwrap().(ability.Watcher).Watch(ctx, f)
}

// noIDs is a store that does not list ids.
type noIDs struct{ annals.Store }

func (s noIDs) Capabilities() annals.Capabilities {
	c := s.Store.Capabilities()
	c.IDQueries = false
	return c
}

// mayBeLate is a store in which events may become visible late.
type mayBeLate struct{ annals.Store }

func (s mayBeLate) Capabilities() annals.Capabilities {
	c := s.Store.Capabilities()
	c.Lateness = time.Second
	return c
}

// The highest number there can be is a number like others.
func TestEventWithTheHighestNumber(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		write(t, s, "T|1", 1)
		if err := s.Unwrap().(ability.Skipper).SkipTo(t.Context(), "T|1", 1, annals.MaxSeqNr-1); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "T|1", After: annals.MaxSeqNr - 1, Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1}}}}); err != nil {
			t.Fatal(err)
		}
		for what, all := range map[string]func(ctx context.Context) iter.Seq2[annals.Event, error]{
			"of the entity": func(ctx context.Context) iter.Seq2[annals.Event, error] {
				return query.EventsOf(ctx, s, "T|1", 1, annals.MaxSeqNr, query.Options{})
			},
			"of a type": func(ctx context.Context) iter.Seq2[annals.Event, error] {
				return query.Events(ctx, mayBeLate{s}, annals.Filter{Type: "T"}, query.Options{})
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			var got []annals.SeqNr
			for e, err := range all(ctx) {
				if err != nil || len(got) > 2 {
					break
				}
				got = append(got, e.SeqNr)
			}
			if cancel(); !slices.Equal(got, []annals.SeqNr{annals.MaxSeqNr}) {
				t.Errorf("%s: %v", what, got)
			}
		}
	})
}
