package process_test

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
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/internal/servers/stores"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/process"
)

// Two runners, which fail, lose answers, end and begin again: every input, command and timer takes effect once. Recipients fail at random, too.
func TestRandomInputs(t *testing.T) {
	t.Parallel()
	n := 6
	if testing.Short() {
		n = 2
	}
	random.Each(t, n, func(t *testing.T, r *random.Source) {
		synctest.Test(t, func(t *testing.T) {
			x := newTrial(t, memstore.New(), r, 80, time.Second)
			x.rest = 2 * time.Minute
			x.run(t)
		})
	})
}

// The same on stores with files and servers.
func TestRandomInputsOnStores(t *testing.T) {
	t.Parallel()
	for name, address := range stores.New {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newTrial(t, stores.Open(t, address(t)), random.New(t), 40, 200*time.Millisecond).run(t)
		})
	}
}

// trial is a world, and what is wished for in it.
type trial struct {
	*world
	r          *random.Source
	wishes     int
	unit       time.Duration // of the times of timers
	rest       time.Duration // for how long no runner runs before the last one, which then looks at what is noted as executed
	ids        []string      // of instances
	recipients []string
	faults     atomic.Bool
	made       map[string][]wish // by entity
}

func newTrial(t *testing.T, store annals.Store, r *random.Source, wishes int, unit time.Duration) *trial {
	t.Helper()
	w, err := newWorld(store)
	if err != nil {
		t.Fatal(err)
	}
	x := &trial{world: w, r: r, wishes: wishes, unit: unit, ids: []string{"a", "b", "c", "d"}, recipients: []string{"x", "y"}, made: map[string][]wish{}}
	w.flaky = func() error {
		if x.faults.Load() && r.OneIn(10) {
			return &annals.Error{Op: "ask", Kind: annals.ErrUnavailable, Err: errors.New("on purpose")}
		}
		return nil
	}
	return x
}

// unreliable is the store with faults.
func (x *trial) unreliable() annals.Store {
	return &faulty.Store{Store: x.store, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
		if !x.faults.Load() || !x.r.OneIn(25) {
			return run()
		}
		if !c.Writes || x.r.OneIn(2) {
			return faulty.Failed(c)
		}
		if err := run(); err != nil {
			return err
		}
		return faulty.Lost(c)
	}}
}

func (x *trial) run(t *testing.T) {
	t.Helper()
	x.faults.Store(true)
	listing := listing
	react := listing.React
	listing.React = func(s map[string]int, in process.Input) (process.Step[note], error) {
		if x.faults.Load() && x.r.OneIn(8) {
			return process.Step[note]{}, errors.New("on purpose")
		}
		return react(s, in)
	}
	options := process.Options{Precision: 50 * time.Millisecond, Lease: 300 * time.Millisecond, Poll: 50 * time.Millisecond, Ranges: 2}
	var runners sync.WaitGroup
	working, stop := context.WithCancel(t.Context())
	for range 2 {
		choices := x.r.Child()
		runners.Go(func() {
			for working.Err() == nil {
				r, err := x.runner(x.unreliable(), listing, options)
				if err != nil {
					t.Error(err)
					return
				}
				ctx, end := context.WithTimeout(working, time.Duration(1+choices.IntN(2000))*time.Millisecond)
				if err := r.Run(ctx); err != nil {
					t.Error(err)
				}
				end()
			}
		})
	}
	for range x.wishes {
		x.wish(t)
		if x.r.OneIn(4) {
			wait(t.Context(), time.Duration(x.r.IntN(100))*time.Millisecond)
		}
	}
	stop()
	runners.Wait()
	wait(t.Context(), x.rest)
	x.faults.Store(false)
	x.finish(t, options)
	x.check(t)
}

// finish has everything done that is wished for.
func (x *trial) finish(t *testing.T, options process.Options) {
	t.Helper()
	r, err := x.runner(x.store, listing, options)
	if err != nil {
		t.Fatal(err)
	}
	for left, tries := 1, 0; left > 0; tries++ {
		settle(t, r)
		left = 0
		for _, c := range append(r.Inputs(), r.Control()) {
			for _, err := range c.Parked(t.Context(), "") {
				if err != nil {
					t.Fatal(err)
				}
				left++
			}
			if err := c.Retry(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range x.ids {
			n, err := r.Load(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if !n.Ended {
				left += len(n.Timers) + n.Awaits
			}
		}
		wait(t.Context(), x.unit)
		if tries == 100 {
			t.Fatalf("%d timers, answers or parked entities are left", left)
		}
	}
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// wish makes a random wish.
func (x *trial) wish(t *testing.T) {
	t.Helper()
	w := wish{For: random.OneOf(x.r, x.ids...), Do: random.OneOf(x.r, "ask", "ask", "reject", "set", "set", "set", "cancel", "ignore")}
	switch w.Do {
	case "ask", "reject":
		w.Name = random.OneOf(x.r, x.recipients...)
	case "set", "cancel":
		w.Name, w.After = random.OneOf(x.r, "t1", "t2"), time.Duration(x.r.IntN(3))*x.unit/2
	}
	if x.r.OneIn(60) {
		w = wish{For: w.For, Do: "end"}
	}
	entity := fmt.Sprintf("%s|%d", random.OneOf(x.r, sourceTypes...), x.r.IntN(3))
	x.made[entity] = append(x.made[entity], w)
	x.do(t, entity, w)
}

// check demands that everything has happened once.
func (x *trial) check(t *testing.T) {
	t.Helper()
	boxes := map[string][]string{}
	for _, id := range x.ids {
		x.checkInstance(t, id, boxes)
	}
	for name, want := range boxes {
		got, err := x.got(t.Context(), name)
		if slices.Sort(got); err != nil || !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("recipient %s has got %q, %v, want %q", name, got, err, want)
		}
	}
}

// checkInstance demands that an instance has handled everything once, and adds to boxes the ids of the commands that it has sent.
func (x *trial) checkInstance(t *testing.T, id string, boxes map[string][]string) {
	t.Helper()
	notes, times, err := x.notes(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	handled := map[annals.PersistenceID][]annals.SeqNr{}
	timers, asked, ended := map[string]time.Time{}, 0, false
	for i, n := range notes {
		if ended {
			t.Errorf("%s: %q after its end", id, n.Do)
		}
		if n.From != "" {
			handled[n.From] = append(handled[n.From], n.SeqNr)
		}
		switch at := fmt.Sprintf("Listing|%s/%d/", id, n.step); n.Do {
		case "ask":
			asked++
			boxes[n.Name], boxes[n.Name+"'"] = append(boxes[n.Name], at+"1"), append(boxes[n.Name+"'"], at+"2")
		case "reject":
			asked++
		case "set":
			timers[n.Name] = n.Due
		case "cancel":
			delete(timers, n.Name)
		case "end":
			ended = true
		case "fired":
			boxes["timers of "+id] = append(boxes["timers of "+id], at+"1")
			due, set := timers[n.Name]
			if !set || times[i].Before(due) {
				t.Errorf("%s: timer %s took effect at %v; it was set to %v: %v", id, n.Name, times[i], due, set)
			}
			delete(timers, n.Name)
		default:
			if !strings.HasPrefix(n.Do, "answered ") {
				t.Errorf("%s: %q", id, n.Do)
			}
			asked--
		}
	}
	if !ended && (asked != 0 || len(timers) > 0) {
		t.Errorf("%s: %d answers are missing, and the timers %v", id, asked, timers)
	}
	for entity, all := range x.made {
		var want []annals.SeqNr
		for i, w := range all {
			if w.For == id && w.Do != "ignore" {
				want = append(want, annals.SeqNr(i+1))
			}
		}
		got := handled[annals.PersistenceID(entity)]
		if ended && len(got) < len(want) {
			want = want[:len(got)]
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has handled the events %v of %s, want %v", id, got, entity, want)
		}
	}
}
