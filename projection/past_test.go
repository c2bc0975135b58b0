package projection_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/cleanup"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

// rebuilt is a handler that notes which events are handed over with Rebuilding, each with a "+", and which without.
type rebuilt struct {
	failing
	mu  sync.Mutex
	all []string
}

func (r *rebuilt) handle(e envelope) error {
	if err := r.failing.handle(e); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	text := key(e)
	if e.Rebuilding {
		text = "+" + text
	}
	r.all = append(r.all, text)
	return nil
}

// take returns what was handed over since it was called last.
func (r *rebuilt) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	slices.Sort(all)
	return all
}

// resetAfter calls do with a projection, and returns how its events are handed over after a reset that follows.
func resetAfter(t *testing.T, src Source[int], verdict func() Verdict, do func(events *memstore.Store, c *Control, h *rebuilt, catchUp func())) []string {
	t.Helper()
	events, model, h := memstore.New(), memstore.New(), &rebuilt{}
	src.Store, src.Type, src.Codec = events, "T", numbers
	r := must(t)(AtLeastOnce("p", src, model, func(_ context.Context, e envelope) error { return h.handle(e) },
		Options{Ranges: 2, Logger: silent, OnError: func(context.Context, Failure) Verdict { return verdict() }}))
	c := r.Control()
	do(events, c, h, func() { catchUp(t, r) })
	h.take()
	h.set()
	if err := c.Reset(t.Context(), annals.Offset{}); err != nil {
		t.Fatal(err)
	}
	catchUp(t, r)
	return h.take()
}

// What was left out by Skip or Discard counts as handled, and what waits in a parked entity does not.
func TestRebuildingAfterFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		verdict Verdict
		also    func(t *testing.T, c *Control, h *rebuilt) error
		want    []string
	}{
		"skip":   {Skip, nil, []string{"+T|1/1", "+T|1/2", "+T|1/3", "+T|2/1", "T|2/2"}},
		"parked": {Park, nil, []string{"+T|1/1", "+T|2/1", "T|1/2", "T|1/3", "T|2/2"}},
		"retried": {Park, func(t *testing.T, c *Control, h *rebuilt) error { h.set(); return c.Retry(t.Context(), "T|1") },
			[]string{"+T|1/1", "+T|1/2", "+T|1/3", "+T|2/1", "T|2/2"}},
		"retried in vain": {Park, func(t *testing.T, c *Control, h *rebuilt) error { h.set("T|1/3"); return c.Retry(t.Context(), "T|1") },
			[]string{"+T|1/1", "+T|1/2", "+T|2/1", "T|1/3", "T|2/2"}},
		"discarded": {Park, func(t *testing.T, c *Control, _ *rebuilt) error { return c.Discard(t.Context(), "T|1", 3) },
			[]string{"+T|1/1", "+T|1/2", "+T|1/3", "+T|2/1", "T|2/2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got := resetAfter(t, Source[int]{}, func() Verdict { return c.verdict }, func(events *memstore.Store, control *Control, h *rebuilt, catchUp func()) {
					add(t, events, 1, 2, 1)
					add(t, events, 1, 1, 2)
					h.set("T|1/2")
					catchUp()
					if c.also != nil {
						if err := c.also(t, control, h); err != nil {
							t.Fatal(err)
						}
						catchUp()
					}
					add(t, events, 2, 2, 1) // is new
				})
				equal(t, "after the reset", got, c.want)
			})
		})
	}
}

// A reset takes nothing back of what was known at an earlier one, also when the projection has not come as far again, and when other entities are
// parked then.
func TestRebuildingAfterTwoResets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got := resetAfter(t, Source[int]{}, func() Verdict { return Park }, func(events *memstore.Store, c *Control, h *rebuilt, catchUp func()) {
			add(t, events, 1, 3, 2)
			h.set("T|1/1", "T|2/2")
			catchUp()
			for _, fails := range []string{"T|1/2", "T|2/1"} { // each event but T|1/2 is handled once
				if err := c.Reset(t.Context(), annals.Offset{}); err != nil {
					t.Fatal(err)
				}
				h.set(fails, "T|1/2", "T|3/1")
				catchUp()
			}
		})
		equal(t, "after the resets", got, []string{"+T|1/1", "+T|2/1", "+T|2/2", "+T|3/1", "+T|3/2", "T|1/2"})
	})
}

// Events without the tag are not handed over, and change nothing for the others. A reset to a time leaves the events before it.
func TestRebuildingOfTagsAndTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events, model, h := memstore.New(), memstore.New(), &rebuilt{}
		r := must(t)(AtLeastOnce("p", Source[int]{Store: events, Tag: "red", Codec: numbers}, model, func(_ context.Context, e envelope) error { return h.handle(e) }, Options{Logger: silent}))
		appendRed := func(after annals.SeqNr) {
			c := annals.Commit{ID: "T|1", After: after, Events: make([]annals.NewEvent, 2)}
			for i := range c.Events {
				c.Events[i].Payload, _ = numbers.Encode(1)
			}
			c.Events[0].Tags = []string{"red"}
			if _, err := events.Journal().Append(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		appendRed(0)
		half := time.Now()
		appendRed(2)
		catchUp(t, r)
		appendRed(4)
		h.take()
		if err := r.Control().Reset(t.Context(), annals.Offset{Time: half}); err != nil {
			t.Fatal(err)
		}
		catchUp(t, r)
		equal(t, "after the reset", h.take(), []string{"+T|1/3", "T|1/5"})
	})
}

// What Options.From left out counts as handled when a reset goes back beyond it.
func TestRebuildingBeforeFrom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events, model, h := memstore.New(), memstore.New(), &rebuilt{}
		began := time.Now()
		add(t, events, 1, 1, 1)
		time.Sleep(time.Minute)
		from := annals.Offset{Time: time.Now()}
		add(t, events, 1, 1, 1)
		r := must(t)(AtLeastOnce("p", Source[int]{Store: events, Type: "T", Codec: numbers}, model, func(_ context.Context, e envelope) error { return h.handle(e) }, Options{Ranges: 1, From: from, Logger: silent}))
		catchUp(t, r)
		equal(t, "before the reset", h.take(), []string{"T|1/2"})
		if err := r.Control().Reset(t.Context(), annals.Offset{Time: began}); err != nil {
			t.Fatal(err)
		}
		catchUp(t, r)
		equal(t, "after the reset", h.take(), []string{"+T|1/1", "+T|1/2"})
	})
}

// A state is rebuilt when this revision was handled, and not when it has changed since.
func TestRebuildingOfStates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, h := memstore.New(), &rebuilt{}
		r := must(t)(AtLeastOnce("p", Source[int]{Store: store, Type: "T", Codec: numbers, States: true}, store, func(_ context.Context, e envelope) error { return h.handle(e) }, Options{Logger: silent}))
		for _, id := range []string{"1", "2", "3"} {
			put(t, store, id, 1, false)
		}
		catchUp(t, r)
		put(t, store, "2", 2, false)
		put(t, store, "3", 2, true)
		h.take()
		if err := r.Control().Reset(t.Context(), annals.Offset{}); err != nil {
			t.Fatal(err)
		}
		catchUp(t, r)
		equal(t, "after the reset", h.take(), []string{"+T|1/1", "T|2/2", "T|3/2"})
	})
}

// An event that appears late while a read model is rebuilt was not handled before.
func TestLateEventIsNotRebuilt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events, model, h := tooLate(map[int]time.Duration{1: 90 * time.Second}), memstore.New(), &rebuilt{}
		r := must(t)(AtLeastOnce("p", Source[int]{Store: events, Type: "T", Codec: numbers}, model, func(_ context.Context, e envelope) error { return h.handle(e) }, Options{Logger: silent}))
		running(t, r)
		add(t, events, 1, 3, 1)
		time.Sleep(40 * time.Second)
		equal(t, "before the reset", h.take(), []string{"T|1/1", "T|3/1"})
		if err := r.Control().Reset(t.Context(), annals.Offset{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		equal(t, "after the reset", h.take(), []string{"+T|1/1", "+T|3/1", "T|2/1"})
	})
}

// Of a forgotten entity nothing is left of before a reset either, whether it was parked or not. Another life of it is not rebuilt.
func TestForgottenBeforeAReset(t *testing.T) {
	t.Parallel()
	for _, parked := range []bool{false, true} {
		t.Run(fmt.Sprintf("parked %t", parked), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got := resetAfter(t, Source[int]{}, func() Verdict { return Park }, func(events *memstore.Store, c *Control, h *rebuilt, catchUp func()) {
					add(t, events, 1, 2, 3)
					if parked {
						h.set("T|1/2")
					}
					catchUp()
					if err := c.Reset(t.Context(), annals.Offset{}); err != nil {
						t.Fatal(err)
					}
					cleaner, err := cleanup.New(events, cleanup.Options{AtOnce: true})
					if err != nil {
						t.Fatal(err)
					}
					if _, err := cleaner.ForgetEntities(t.Context(), cleanup.IDs("T|1")); err != nil {
						t.Fatal(err)
					}
					if err := c.Forget(t.Context(), "T|1"); err != nil {
						t.Fatal(err)
					}
					wantNoTrace(t, c.Store(), "T|1")
					time.Sleep(time.Minute)
					add(t, events, 1, 1, 2)
				})
				equal(t, "after the resets", got, []string{"+T|2/1", "+T|2/2", "+T|2/3", "T|1/1", "T|1/2"})
			})
		})
	}
}

// The position before a reset ended at an event of an entity that is forgotten. What was handled of others counts as before.
func TestForgottenThroughBeforeAReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got := resetAfter(t, Source[int]{}, func() Verdict { return Park }, func(events *memstore.Store, c *Control, _ *rebuilt, catchUp func()) {
			add(t, events, 1, 3, 2)
			catchUp()
			at := map[annals.PersistenceID]annals.Offset{}
			for e, err := range events.Query().Events(t.Context(), annals.Filter{Type: "T"}) {
				if err != nil {
					t.Fatal(err)
				}
				at[e.ID] = e.Offset()
			}
			model := c.Store()
			if err := errors.Join(
				model.Offsets().Reset(t.Context(), "p", annals.SliceRange{}, annals.Offset{}),
				model.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Through: at["T|2"], Offsets: []annals.Offset{at["T|3"]}}),
				c.Reset(t.Context(), annals.Offset{}),
				c.Forget(t.Context(), "T|2"), c.Forget(t.Context(), "T|2")); err != nil {
				t.Fatal(err)
			}
			wantNoTrace(t, model, "T|2")
		})
		equal(t, "after the resets", got, []string{"+T|1/1", "+T|1/2", "+T|2/1", "+T|3/1", "+T|3/2", "T|2/2"})
	})
}

// What is kept of an entity that waited before a reset does not name another one, at whose event a position ended.
func TestForgottenBesideOneThatWaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got := resetAfter(t, Source[int]{}, func() Verdict { return Park }, func(events *memstore.Store, c *Control, h *rebuilt, catchUp func()) {
			add(t, events, 1, 3, 2)
			h.set("T|3/1")
			catchUp()
			var last annals.Offset
			for e, err := range events.Journal().Replay(t.Context(), "T|2", 2, 2) {
				if last = e.Offset(); err != nil {
					t.Fatal(err)
				}
			}
			model := c.Store()
			if err := errors.Join(
				c.Reset(t.Context(), annals.Offset{}),
				model.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Through: last}),
				c.Reset(t.Context(), annals.Offset{})); err != nil {
				t.Fatal(err)
			}
			wantNoTrace(t, model, "T|2")
		})
		equal(t, "after the resets", got, []string{"+T|1/1", "+T|1/2", "+T|2/1", "+T|2/2", "T|3/1", "T|3/2"})
	})
}

// A new read model keeps quiet about what the old projection has handled, before it was reset too, and not about what it has not.
func TestRebuildingBesideTheOldOne(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			events, h := memstore.New(), &rebuilt{}
			old := &rebuilt{}
			o := Options{Logger: silent, OnError: park}
			source := Source[int]{Store: events, Type: "T", Codec: numbers}
			first := must(t)(AtLeastOnce("p", source, memstore.New(), func(_ context.Context, e envelope) error { return old.handle(e) }, o))
			add(t, events, 1, 4, 2)
			old.set("T|1/2", "T|2/1")
			catchUp(t, first)
			if err := first.Control().Reset(t.Context(), annals.Offset{}); err != nil {
				t.Fatal(err)
			}
			old.set("T|3/1", "T|2/1")
			catchUp(t, first)
			add(t, events, 4, 4, 1) // the old projection does not run any more
			next := must(t)(AtLeastOnce("p2", source, memstore.New(), func(_ context.Context, e envelope) error { return h.handle(e) }, o))
			r := Rebuild{Old: first.Control(), Next: next, SwitchOver: func(context.Context) error { return nil }}
			if fails {
				r.SwitchOver = func(context.Context) error { return errBroken }
				if err := r.Run(t.Context()); !errors.Is(err, errBroken) {
					t.Fatal(err)
				}
				r.SwitchOver = func(context.Context) error { return nil }
			}
			if err := r.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			equal(t, "in the new read model", h.take(), []string{"+T|1/1", "+T|1/2", "+T|3/1", "+T|3/2", "+T|4/1", "+T|4/2", "T|2/1", "T|2/2", "T|4/3"})
			add(t, events, 1, 1, 1)
			catchUp(t, next)
			equal(t, "later", h.take(), []string{"T|1/3"})
		})
	}
}

// While the new projection catches up, it learns what the old one handles meanwhile.
func TestRebuildingWhileTheOldOneGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events, h := memstore.New(), &rebuilt{}
		source := Source[int]{Store: events, Type: "T", Codec: numbers}
		first := must(t)(AtLeastOnce("p", source, memstore.New(), func(context.Context, envelope) error { return nil }, Options{Logger: silent}))
		running(t, first)
		add(t, events, 1, 1, 100)
		time.Sleep(time.Minute)
		var added atomic.Bool
		next := must(t)(AtLeastOnce("p2", source, memstore.New(), func(_ context.Context, e envelope) error {
			time.Sleep(time.Second)
			if !added.Swap(true) {
				add(t, events, 1, 1, 10)
			}
			return h.handle(e)
		}, Options{Logger: silent, Ranges: 1, BatchSize: 10, Lease: time.Second}))
		if err := (Rebuild{Old: first.Control(), Next: next, SwitchOver: func(context.Context) error { return nil }}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, event := range h.take() {
			if event[0] != '+' {
				t.Errorf("%s was handed over without Rebuilding", event)
			}
		}
	})
}

// The old projection has ranges of SliceRanges and the new one, as its store claims by now, of SpreadRanges, also when the new one has a past of its own.
func TestRebuildingInRangesFarApart(t *testing.T) {
	t.Parallel()
	for _, ran := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			near, model, h := memstore.New(), memstore.New(), &rebuilt{}
			project := func(name string, s annals.Store, handle func(envelope) error) *Runner {
				return must(t)(AtLeastOnce(name, Source[int]{Store: s, Type: "T", Codec: numbers}, model, func(_ context.Context, e envelope) error { return handle(e) },
					Options{Logger: silent, OnError: park}))
			}
			old := &rebuilt{}
			first, next := project("p", near, old.handle), project("p2", spreading{near}, h.handle)
			if ran { // one entity only, and a reset
				add(t, near, 1, 1, 1)
				catchUp(t, next)
				if err := next.Control().Reset(t.Context(), annals.Offset{}); err != nil {
					t.Fatal(err)
				}
				h.take()
			}
			add(t, near, 2, 40, 1)
			old.set("T|30/1")
			catchUp(t, first)
			add(t, near, 41, 50, 1) // the old projection does not run any more
			if err := (Rebuild{Old: first.Control(), Next: next, SwitchOver: func(context.Context) error { return nil }}).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			var want []string
			for i := 2; i <= 50; i++ {
				text := fmt.Sprintf("T|%d/1", i)
				if i <= 40 && i != 30 {
					text = "+" + text
				}
				want = append(want, text)
			}
			if ran {
				want = append(want, "+T|1/1")
			}
			slices.Sort(want)
			equal(t, "in the new read model", h.take(), want)
		})
	}
}

// The new projection is reset at the moment when its rebuild first looks at the old one, whose ranges are of the other kind. What both keep is in
// ranges of one kind, those of the new projection, and nothing of it is left out.
func TestResetDuringTheFirstLook(t *testing.T) {
	t.Parallel()
	for _, spread := range []bool{false, true} { // the new projection
		synctest.Test(t, func(t *testing.T) {
			events, model, h := memstore.New(), memstore.New(), &rebuilt{}
			project := func(name string, spread bool, model annals.Store, handle func(envelope) error) *Runner {
				from := annals.Store(events)
				if spread {
					from = spreading{events}
				}
				return must(t)(AtLeastOnce(name, Source[int]{Store: from, Type: "T", Codec: numbers}, model, func(_ context.Context, e envelope) error { return handle(e) }, Options{Logger: silent}))
			}
			add(t, events, 1, 20, 1)
			next := project("p2", spread, model, h.handle)
			catchUp(t, next)
			add(t, events, 1, 30, 1)
			catchUp(t, project("p", !spread, model, func(envelope) error { return nil }))
			h.take()
			var reset bool
			during := &faulty.Store{Store: model, Around: func(ctx context.Context, c *faulty.Call, run func() error) error {
				if p, ok := c.Arg.(*annals.Progress); ok && strings.Contains(p.Projection, "past") && !reset {
					reset = true
					if err := next.Control().Reset(ctx, annals.Offset{}); err != nil {
						return err
					}
				}
				return run()
			}}
			r := Rebuild{Old: NewControl(model, "p"), Next: project("p2", spread, during, h.handle), SwitchOver: func(context.Context) error { return nil }}
			if err := r.Run(t.Context()); err != nil || !reset {
				t.Fatal(err, reset)
			}
			for _, event := range h.take() {
				if event[0] != '+' {
					t.Errorf("%s was handed over without Rebuilding", event)
				}
			}
			for i, r := range []annals.SliceRange{{From: 0, To: annals.SliceCount}, {From: annals.SliceCount, To: 2 * annals.SliceCount}} {
				positions, err := model.Offsets().Load(t.Context(), "annals.past|p2", r)
				if err != nil {
					t.Fatal(err)
				}
				found := slices.ContainsFunc(positions, func(p annals.Position) bool { return p.Through != annals.Offset{} })
				if want := (i == 1) == spread; found != want {
					t.Errorf("the new projection spreads: %t; the past has ranges like %v: %t, want %t", spread, r, found, want)
				}
			}
		})
	}
}

// The names of the library are refused, and so is a name that is too long for the names which the library makes of it.
func TestNamesOfProjections(t *testing.T) {
	t.Parallel()
	in := inMemory(memstore.New())
	for _, name := range []string{"annals.past|p", "annals."} {
		if _, err := in.once(name, in.store, nil, Options{Logger: silent}); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("a projection %q: %v, want ErrInvalid", name, err)
		}
	}
}
