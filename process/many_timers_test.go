package process_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/servers/stores"
	"github.com/annals-go/annals/process"
)

// timers is how many instances wait: make soak has 100,000.
var timers = flag.Int("timers", 1000, "how many instances wait for a timer")

// Timers that are not due cost nothing but their place in the store: no memory, and two requests for each look.
func TestManyTimers(t *testing.T) { // not parallel: it counts memory
	store := stores.Open(t, stores.New["sqlite"](t))
	w, err := newWorld(store)
	if err != nil {
		t.Fatal(err)
	}
	looks := make(chan time.Time, 1<<16)
	counted := &faulty.Store{Store: store, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
		if strings.HasPrefix(c.ID.Type(), "annals.calendar") {
			looks <- time.Now()
		}
		return run()
	}}
	const each = 100
	for n := 0; n < *timers; n += each {
		c := annals.Commit{ID: annals.NewPersistenceID("Here", fmt.Sprint(n))}
		for i := range each {
			p, err := codec.JSON[wish]("Here").Encode(wish{For: fmt.Sprint(n + i), Do: "set", Name: "t", After: 24*time.Hour + time.Duration(i)*time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			c.Events = append(c.Events, annals.NewEvent{Payload: p})
		}
		if _, err := store.Journal().Append(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	options := process.Options{Precision: 20 * time.Millisecond}
	r, err := w.runner(store, listing, options)
	if err != nil {
		t.Fatal(err)
	}
	settle(t, r)
	if n, err := r.Load(t.Context(), "0"); err != nil || len(n.Timers) != 1 {
		t.Fatalf("loaded %+v, %v", n, err)
	}
	before := heap()
	if r, err = w.runner(counted, listing, options); err != nil {
		t.Fatal(err)
	}
	done := run(t, r)
	begun := <-looks
	for range 19 {
		<-looks
	}
	if took := (<-looks).Sub(begun); took < 20*options.Precision/3 {
		t.Errorf("20 requests for timers in %v", took)
	}
	if grown := heap() - before; grown > 8<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	done()
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
