package process_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/process"
)

// Commands of steps that are older than a minute read their instance once for all steps that are handed over together.
func TestReadsOfOldSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const steps = 50
		w, err := newWorld(memstore.New())
		if err != nil {
			t.Fatal(err)
		}
		p := listing
		p.React = func(map[string]int, process.Input) (process.Step[note], error) {
			return process.Step[note]{Commands: []process.Command{toBoxes.Tell("x", "hello"), toBoxes.Tell("y", "hello")}}, nil
		}
		var reads atomic.Int64
		r, err := w.runner(&faulty.Store{Store: w.store, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
			if c.ID.Type() == "Listing" && !c.Writes {
				reads.Add(1)
			}
			return run()
		}}, p, process.Options{Ranges: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Control().Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range steps {
			w.do(t, "Here|h", wish{For: "a"})
		}
		runFor(t, r, 20*time.Second)
		time.Sleep(time.Minute)
		if n, err := r.Load(t.Context(), "a"); err != nil || n.SeqNr != steps {
			t.Errorf("%+v, %v", n, err)
		}
		if err := r.Control().Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		reads.Store(0)
		runFor(t, r, 20*time.Second)
		for _, recipient := range []string{"x", "y"} {
			if got, err := w.got(t.Context(), recipient); err != nil || len(got) != steps {
				t.Errorf("%s has got %q, %v", recipient, got, err)
			}
		}
		if n := reads.Load(); n > steps/5 {
			t.Errorf("the instance was read by %d calls for the commands of %d steps", n, steps)
		}
	})
}

// A timer takes two writes of its instance, and a command one write of its recipient. All others are shared by many timers.
func TestCostsOfTimers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const timers = 1000
		w, err := newWorld(memstore.New())
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		steps, others := 0, 0
		r, err := w.runner(&faulty.Store{Store: w.store, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case c.Writes && c.ID.Type() == "Listing":
				steps++
			case c.Writes:
				others++
			}
			return run()
		}}, listing, process.Options{})
		if err != nil {
			t.Fatal(err)
		}
		set := annals.Commit{ID: "Here|h"}
		for i := range timers {
			p, err := codec.JSON[wish]("Here").Encode(wish{For: strconv.Itoa(i), Do: "set", Name: "t", After: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			set.Events = append(set.Events, annals.NewEvent{Payload: p})
		}
		if _, err := w.store.Journal().Append(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		settle(t, r)
		time.Sleep(time.Hour)
		settle(t, r)
		for i := range timers {
			w.wantDone(t, strconv.Itoa(i), "set t", "fired t")
			w.wantGot(t, "timers of "+strconv.Itoa(i), "Listing|"+strconv.Itoa(i)+"/3/1")
		}
		if steps != 2*timers || others > timers/5 {
			t.Errorf("%d timers have taken %d writes of instances and %d others", timers, steps, others)
		}
	})
}
