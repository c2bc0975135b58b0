package hosttest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/memstore"
)

// Owners on a store with these times get their shares, execute together as many commands as one of them alone, and few of their writes meet
// conflicts.
func TestShares(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	callers := []int{1, 16}
	if testing.Short() {
		callers = []int{4}
	}
	for _, c := range []struct {
		hosts string
		times time.Duration // of a read, and of a write
		most  float64
		least float64 // commands of all, divided by those of one alone
		busy  bool    // the store works for one request at a time, so each try that fails takes time from others
	}{
		{"EE", 2 * ms, 2, 0.9, false}, {"EE", 15 * ms, 2, 0.9, false}, {"AA", 2 * ms, 2, 0.9, false}, {"EA", 2 * ms, 6, 0, false}, {"EEA", 4 * ms, 10, 0, false},
		{"EEEEEEEE", 2 * ms, 5, 0.9, false}, {"ee", 2 * ms, 2, 0.9, false}, {"ee", 15 * ms, 2, 0.9, false}, {"aa", 2 * ms, 2, 0.9, false},
		{"eeeeeeee", 2 * ms, 5, 0.9, false}, {"EE", 2 * ms, 2, 0.8, true}, {"ee", 2 * ms, 2, 0.8, true},
	} {
		for _, callers := range callers {
			t.Run(fmt.Sprint(c.hosts, callers, c.times, c.busy), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { shares(t, c.hosts, callers, c.times, c.busy, c.most, c.least) })
			})
		}
	}
}

func shares(t *testing.T, hosts string, callers int, times time.Duration, busy bool, most, least float64) {
	s := newFar(times, times, busy, random.New(t))
	long := 5000 * times // so that chance is small: the fewest writes of an owner are some hundreds
	run := func(hosts string) Owners {
		owners, err := NewOwners(hosts, s)
		if err != nil {
			t.Fatal(err)
		}
		defer owners.Close()
		if err := owners.Run(t.Context(), "hot "+hosts, callers, long); err != nil {
			t.Error(err)
		}
		return owners
	}
	alone := run(hosts[:1])
	before := s.writes.Load()
	together := run(hosts)
	writes := s.writes.Load() - before
	stored := int64(0)
	for _, o := range together {
		stored += o.writes.Load()
	}
	if ratio := together.Ratio(); ratio > most {
		t.Errorf("one owner has written %.1f times as often as another: %v", ratio, together)
	}
	if total := float64(together.Commands()) / float64(alone.Commands()); total < least {
		t.Errorf("together %v, alone %v: %.2f times as many", together, alone, total)
	}
	if len(hosts) == 2 && stored < writes*85/100 {
		t.Errorf("of %d writes %d met conflicts", writes, writes-stored)
	}
}

// far is a store whose reads and writes of entities take about so long, half of it before and half of it after their effect.
type far struct {
	faulty.Store
	writes atomic.Int64 // all, also those that meet a conflict
}

// newFar returns a far memstore. A busy one works for one request at a time.
func newFar(read, write time.Duration, busy bool, r *random.Source) *far {
	half := func(d time.Duration) { time.Sleep(d*2/5 + r.Below(d/5+1)) } // about half of d
	works := make(chan struct{}, 1)                                      // full while the store works
	s := &far{Store: faulty.Store{Store: memstore.New()}}
	s.Around = func(_ context.Context, c *faulty.Call, run func() error) error {
		work := func() (done func()) {
			if !busy {
				return func() {}
			}
			works <- struct{}{}
			return func() { <-works }
		}
		switch c.Op {
		case "append", "put state":
			defer work()()
			s.writes.Add(1)
			half(write)
			defer half(write)
		case "get state":
			defer work()()
			half(read)
			defer half(read)
		case "load snapshot":
			defer work()()
			half(read) // the other half is in the replay
		case "replay":
			err := run()
			defer work()()
			half(read)
			return err
		}
		return run()
	}
	return s
}
