package calendar_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/annals-go/annals"
	. "github.com/annals-go/annals/internal/calendar"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/memstore"
)

// Without faults a timer comes within two ticks, whatever its distance was, and with whatever clock it was added.
func TestInTime(t *testing.T) {
	t.Parallel()
	for r := range random.Rounds(t, 3) {
		inWorld(t, r, func(w *world) {
			w.precision = time.Second
			dues := map[string]time.Time{}
			runner := w.start()
			runner.run(nil)
			adders := []*process{w.start(), w.start(), runner}
			adders[1].setClock(w.skew())
			for range 30 {
				p := random.OneOf(r, adders...)
				ts := p.timers(3, p.far(6e3))
				for _, x := range ts {
					dues[x.Name] = x.Due
				}
				p.set(ts)
				w.sleep(r.Below(time.Minute))
			}
			w.sleep(7e3 * time.Second)
			runner.stop()
			for name, due := range dues {
				if due.Before(w.added[name]) {
					due = w.added[name]
				}
				if at := w.fired[name]; len(at) != 1 || at[0].Sub(due) > 2*w.precision {
					t.Errorf("a timer was due at %v and came at %v", due, at)
				}
			}
		})
	}
}

// A clock that was far in the future, and is right again, does not delay the timers that come later.
func TestClockGoesBack(t *testing.T) {
	t.Parallel()
	inWorld(t, random.New(t), func(w *world) {
		w.precision = time.Second
		p := w.start()
		p.run(nil)
		early, far, late := p.timers(1, 100*time.Hour), p.timers(1, 3*365*24*time.Hour), p.timers(1, time.Hour)
		p.set(append(early, far...))
		p.setClock(2 * 365 * 24 * time.Hour)
		w.sleep(2 * time.Second)
		if names := w.missing(); !slices.Equal(names, []string{far[0].Name}) {
			t.Errorf("%v have not come by a clock of two years later", names)
		}
		p.setClock(0)
		p.set(late)
		w.sleep(time.Until(late[0].Due) + 2*time.Second)
		if names := w.missing(); !slices.Equal(names, []string{far[0].Name}) {
			t.Errorf("%v have not come after the clock was set back", names)
		}
		p.setClock(3 * 365 * 24 * time.Hour) // two years at once
		w.sleep(2 * time.Second)
		if names := w.missing(); len(names) > 0 {
			t.Errorf("%v have not come", names)
		}
		p.stop()
	})
}

// counter counts the calls of a store.
type counter struct {
	faulty.Store
	mu    sync.Mutex
	calls map[string]int
}

func newCounter(s annals.Store) *counter {
	c := &counter{calls: map[string]int{}}
	c.Store = faulty.Store{Store: s, Around: func(_ context.Context, call *faulty.Call, run func() error) error {
		c.mu.Lock()
		c.calls[call.ID.Type()+": "+call.Op]++
		c.mu.Unlock()
		return run()
	}}
	return c
}

// take returns the calls since the last one.
func (c *counter) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = map[string]int{}
	return calls
}

func TestCosts(t *testing.T) {
	t.Parallel()
	inWorld(t, random.New(t), func(w *world) {
		w.precision = time.Second
		store := newCounter(w.store)
		c := w.calendar(store)
		ctx, stop := context.WithCancel(w.Context())
		fired := make(chan []Timer, 100)
		var ends sync.WaitGroup
		ends.Go(func() {
			if err := c.Run(ctx, func(_ context.Context, ts []Timer) error { fired <- ts; return nil }); err != nil {
				t.Error(err)
			}
		})
		want := func(what string, calls map[string]int, id string, least, most int) {
			t.Helper()
			if n := calls["annals."+id]; n < least || n > most {
				t.Errorf("%s: %d × %s, want %d to %d", what, n, id, least, most)
			}
		}
		w.sleep(time.Minute)
		store.take()
		w.sleep(time.Hour)
		calls := store.take()
		want("an idle hour", calls, "calendar: get state", 3599, 3601)
		want("an idle hour", calls, "lease: put state", 980, 1210)
		want("an idle hour", calls, "lease: get state", 0, 0)
		for _, op := range []string{"calendar: put state", "calendar-chunk: get state", "calendar-chunk: put state"} {
			want("an idle hour", calls, op, 0, 0)
		}
		add := func(after time.Duration) {
			t.Helper()
			x := Timer{"T|1", "x", time.Now().Add(after)}
			if err := c.Add(ctx, []Timer{x}); err != nil {
				t.Error(err)
			}
		}
		add(30 * time.Minute)
		calls = store.take()
		want("to add a timer", calls, "calendar-chunk: get state", 1, 1)
		want("to add a timer", calls, "calendar-chunk: put state", 1, 1)
		want("to add a timer", calls, "calendar: get state", 1, 2)
		want("to add a timer", calls, "calendar: put state", 1, 1)
		for range 8 {
			add(30 * time.Minute)
		}
		calls = store.take()
		want("to add eight more", calls, "calendar-chunk: get state", 0, 0)
		want("to add eight more", calls, "calendar-chunk: put state", 8, 8)
		want("to add eight more", calls, "calendar: get state", 8, 9)
		want("to add eight more", calls, "calendar: put state", 0, 0)
		if ts := <-fired; len(ts) != 9 {
			t.Errorf("%d timers came", len(ts))
		}
		w.sleep(time.Second)
		calls = store.take()
		want("to move and hand over", calls, "calendar-chunk: get state", 3, 4)
		want("to move and hand over", calls, "calendar-chunk: put state", 3, 3)
		want("to move and hand over", calls, "calendar: put state", 3, 3)
		stop()
		ends.Wait()
	})
}

// The runner has a few hundred timers in memory, however many are due, and reads what it has read once.
func TestManyTimersAtOnce(t *testing.T) {
	t.Parallel()
	inWorld(t, random.New(t), func(w *world) {
		w.precision = time.Second
		const n = 6_000
		store := newCounter(w.store)
		c := w.calendar(store)
		ts := make([]Timer, n)
		due := time.Now().Add(10 * time.Minute)
		for i := range ts {
			ts[i] = Timer{annals.PersistenceID(fmt.Sprintf("T|%d", i)), "a name", due}
		}
		if err := c.Add(w.Context(), ts); err != nil {
			t.Error(err)
		}
		w.sleep(5 * time.Minute)
		seen, batches := map[annals.PersistenceID]int{}, 0
		ctx, stop := context.WithTimeout(w.Context(), 6*time.Minute)
		defer stop()
		err := c.Run(ctx, func(_ context.Context, ts []Timer) error {
			calls := store.take()
			if got := calls["annals.calendar-chunk: get state"]; batches > 0 && got > 40 {
				t.Errorf("%d chunks were read before %d timers were handed over", got, len(ts))
			}
			for _, x := range ts {
				seen[x.ID]++
			}
			batches++
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		for id, times := range seen {
			if times != 1 {
				t.Errorf("%s came %d times", id, times)
			}
		}
		if len(seen) != n || batches > n/50 {
			t.Errorf("%d timers came in %d batches", len(seen), batches)
		}
	})
}

// What is not handled comes again, and nothing else before.
func TestFireFails(t *testing.T) {
	t.Parallel()
	inWorld(t, random.New(t), func(w *world) {
		w.precision = time.Second
		p := w.start()
		tries := 0
		p.run(func(ts []Timer) error {
			switch tries++; tries {
			case 1, 2:
				return errors.New("not now")
			case 3:
				panic("of the test")
			}
			if len(ts) != 1 || ts[0].Name != "1" && tries < 5 {
				t.Errorf("try %d: %v", tries, ts)
			}
			return nil
		})
		p.set([]Timer{{"T|1", "1", time.Now()}})
		w.sleep(time.Microsecond) // it is handed over
		p.set([]Timer{{"T|1", "2", time.Now()}})
		w.sleep(5 * time.Second)
		if len(w.missing()) > 0 || tries != 5 {
			t.Errorf("%v have not come after %d tries", w.missing(), tries)
		}
		p.stop()
	})
}

// A chunk that cannot be read holds up its own timers only.
func TestCorruptChunk(t *testing.T) {
	t.Parallel()
	inWorld(t, random.New(t), func(w *world) {
		w.precision = time.Second
		p := w.start()
		p.set([]Timer{{"T|1", "corrupt", time.Now().Add(5 * time.Minute)}})
		delete(w.added, "corrupt")
		chunks := 0
		for s, err := range w.store.Query().States(w.Context(), annals.Filter{Type: "annals.calendar-chunk"}) {
			if err != nil || len(s.Data) == 0 {
				t.Fatal(err)
			}
			s.Data = []byte(strings.Replace(string(s.Data), `"T|1"`, `7`, 1))
			if _, err := w.store.States().Put(w.Context(), annals.StateWrite{ID: s.ID, After: s.Revision, Payload: s.Payload}); err != nil {
				t.Fatal(err)
			}
			chunks++
		}
		p.stop()
		p = w.start()
		p.run(nil)
		w.sleep(6 * time.Minute)
		p.set(p.timers(2, -time.Hour))
		p.set(p.timers(2, 128*64*time.Second)) // in the same place
		w.sleep(128*64*time.Second + time.Minute)
		if names := w.missing(); chunks != 1 || len(names) > 0 {
			t.Errorf("%d chunks, and %v have not come", chunks, names)
		}
		p.stop()
	})
}

// Timers that cannot be removed come again with the next look, and no others do.
func TestRemovalFails(t *testing.T) {
	t.Parallel()
	inWorld(t, random.New(t), func(w *world) {
		w.precision = time.Second
		const n = 6_000
		ts := make([]Timer, n)
		for i := range ts {
			ts[i] = Timer{annals.PersistenceID(fmt.Sprintf("T|%d", i)), "a name", time.Now()}
		}
		if err := w.calendar(w.store).Add(w.Context(), ts); err != nil {
			t.Fatal(err)
		}
		var broken atomic.Bool
		broken.Store(true)
		c := w.calendar(&faulty.Store{Store: w.store, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
			if c.Writes && broken.Load() && strings.Contains(string(c.ID), ".2/") && c.ID.Type() == "annals.calendar-chunk" {
				return &annals.Error{Op: c.Op, ID: c.ID, Kind: annals.ErrInvalid, Err: errors.New("refused on purpose")}
			}
			return run()
		}})
		seen := map[annals.PersistenceID]int{}
		for _, d := range []time.Duration{time.Microsecond, time.Minute} {
			ctx, stop := context.WithTimeout(w.Context(), d)
			err := c.Run(ctx, func(_ context.Context, ts []Timer) error {
				for _, x := range ts {
					seen[x.ID]++
				}
				return nil
			})
			if stop(); err != nil {
				t.Error(err)
			}
			again := 0
			for _, times := range seen {
				again += times - 1
			}
			if len(seen) != n || !broken.Load() && again == 0 || broken.Load() && again > 0 || again > n/10 {
				t.Errorf("%d timers came, %d of them again", len(seen), again)
			}
			broken.Store(false)
		}
	})
}

// The first use of a calendar decides how long a tick is.
func TestPrecisionStays(t *testing.T) {
	t.Parallel()
	inWorld(t, random.New(t), func(w *world) {
		w.precision, w.lease = time.Hour, time.Hour
		w.start().set([]Timer{{"T|1", "x", time.Now()}})
		w.precision = time.Millisecond
		p := w.start()
		p.set(p.timers(5, 50*time.Hour))
		p.run(nil)
		w.sleep(70 * time.Hour)
		if names := w.missing(); len(names) > 0 {
			t.Errorf("%v have not come", names)
		}
		p.stop()
	})
}

func TestRefused(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	for what, o := range map[string]Options{"Precision": {Precision: time.Microsecond}, "negative": {Precision: -1}, "Lease": {Lease: time.Millisecond}} {
		if _, err := New(s, "c", o); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, name := range map[string]string{"no name": "", "not UTF-8": "\xff"} {
		if _, err := New(s, name, Options{}); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := New(nil, "c", Options{}); !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("no store: %v", err)
	}
	c, err := New(s, "c", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context(), nil); !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("no function: %v", err)
	}
	for what, x := range map[string]Timer{
		"no id": {Name: "x", Due: time.Now()}, "a long name": {ID: "T|1", Name: strings.Repeat("x", 1025)}, "not UTF-8": {ID: "T|1", Name: "\xff"},
		"year 10000": {ID: "T|1", Due: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if err := c.Add(t.Context(), []Timer{{ID: "T|1", Name: "right"}, x}); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for id, err := range s.Query().IDs(t.Context(), "annals.calendar-chunk", "") {
		t.Errorf("%s was written beside a timer that was refused, %v", id, err)
	}
}

// Timers of all years keep their times to the nanosecond.
func TestTimes(t *testing.T) {
	t.Parallel()
	inWorld(t, random.New(t), func(w *world) {
		c := w.calendar(w.store)
		var want []Timer
		for i, due := range []time.Time{
			{}, time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(1969, 12, 31, 23, 59, 59, 999999999, time.FixedZone("east", 3600)),
			time.Unix(0, 0), time.Now().Add(-1), time.Now(),
		} {
			want = append(want, Timer{"T|1", fmt.Sprint(i), due})
		}
		if err := c.Add(w.Context(), want); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(w.Context(), time.Minute)
		defer stop()
		var got []Timer
		if err := c.Run(ctx, func(_ context.Context, ts []Timer) error { got = append(got, ts...); return nil }); err != nil {
			t.Error(err)
		}
		slices.SortFunc(got, func(a, b Timer) int { return strings.Compare(a.Name, b.Name) })
		same := func(a, b Timer) bool { return a.Due.Equal(b.Due) && a.Due.Location() == time.UTC && a.Name == b.Name }
		if !slices.EqualFunc(got, want, same) {
			t.Errorf("%v came, want %v", got, want)
		}
	})
}
