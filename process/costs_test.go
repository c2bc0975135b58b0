package process_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/process"
)

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
