package hosttest

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
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
	s := far{memstore.New(), times, times, new(atomic.Int64), nil}
	if busy {
		s.one = make(chan struct{}, 1)
	}
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
	annals.Store
	read, write time.Duration
	writes      *atomic.Int64 // all, also those that meet a conflict
	one         chan struct{} // full while the store works; nil: the store works for all at the same time
}

// work begins work for a request. The result ends it.
func (s far) work() (done func()) {
	if s.one == nil {
		return func() {}
	}
	s.one <- struct{}{}
	return func() { <-s.one }
}

func (s far) Journal() annals.Journal { return farJournal{s.Store.Journal(), s} }

func (s far) States() annals.StateStore { return farStates{s.Store.States(), s} }

func (s far) Snapshots() annals.SnapshotStore { return farSnapshots{s.Store.Snapshots(), s} }

// half waits for about half of d.
func half(d time.Duration) { time.Sleep(d*2/5 + rand.N(d/5+1)) }

type farJournal struct {
	annals.Journal
	s far
}

func (j farJournal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	defer j.s.work()()
	j.s.writes.Add(1)
	half(j.s.write)
	defer half(j.s.write)
	return j.Journal.Append(ctx, c)
}

func (j farJournal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		for e, err := range j.Journal.Replay(ctx, id, from, to) {
			if !yield(e, err) {
				return
			}
		}
		defer j.s.work()()
		half(j.s.read)
	}
}

type farStates struct {
	annals.StateStore
	s far
}

func (h farStates) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	defer h.s.work()()
	h.s.writes.Add(1)
	half(h.s.write)
	defer half(h.s.write)
	return h.StateStore.Put(ctx, w)
}

func (h farStates) Get(ctx context.Context, id annals.PersistenceID) (annals.State, bool, error) {
	defer h.s.work()()
	half(h.s.read)
	defer half(h.s.read)
	return h.StateStore.Get(ctx, id)
}

type farSnapshots struct {
	annals.SnapshotStore
	s far
}

func (h farSnapshots) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	defer h.s.work()()
	half(h.s.read) // the other half is in Replay
	return h.SnapshotStore.Latest(ctx, id, c)
}
