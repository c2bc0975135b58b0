package projection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
)

const testLease = 10 * time.Second

// world is a store with a projection in it, and the runners that share the projection. Each range has one entity, whose events are the numbers
// 1, 2, 3 … without end. A work handles one event after another: it counts the event and saves its offset in one transaction.
type world struct {
	*testing.T
	ctx    context.Context
	store  *memstore.Store
	ranges int
	noSave bool          // a lease without a fence: saves do not name the epoch
	batch  time.Duration // that a work takes for an event

	mu      sync.Mutex
	handled map[annals.PersistenceID][]annals.SeqNr // acknowledged or not, in the order of the commits
	working map[annals.SliceRange]int
	overlap int // a work began while another one of its range had not returned
	fenced  int // works that ended so
}

// inWorld runs test in a synctest bubble.
func inWorld(t *testing.T, ranges int, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		test(t, &world{
			T: t, ctx: t.Context(), store: memstore.New(), ranges: ranges, batch: 100 * time.Millisecond,
			handled: map[annals.PersistenceID][]annals.SeqNr{}, working: map[annals.SliceRange]int{},
		})
	})
}

// sleep lets time go by in the bubble.
func (w *world) sleep(d time.Duration) { time.Sleep(d) }

// node is one runner, in a process of its own.
type node struct {
	*world
	*group
	handles work
	link    *link
	stop    context.CancelFunc
	err     error // of run
	end     chan struct{}
}

// join starts a runner whose calls go over a link of its own. change may be nil.
func (w *world) join(change func(*node)) *node {
	n := &node{world: w, link: newLink(w), end: make(chan struct{})}
	n.group = &group{
		store: n.link, projection: "p", source: source{Type: "T"}, ranges: w.ranges, lease: testLease,
		log: slog.New(slog.DiscardHandler), now: time.Now,
		steps: n.link.steps,
	}
	n.handles = n.work
	if change != nil {
		change(n)
	}
	ctx, stop := context.WithCancel(w.ctx)
	n.stop = stop
	go func() {
		defer close(n.end)
		n.err = n.run(ctx, n.handles)
	}()
	w.Cleanup(func() {
		stop()
		<-n.end
	})
	return n
}

// leave ends the runner as a program that stops in order.
func (n *node) leave() {
	n.Helper()
	n.stop()
	if err := n.ended(); err != nil {
		n.Errorf("run: %v", err)
	}
}

// ended waits for the end of run.
func (n *node) ended() error {
	<-n.end
	return n.err
}

// entityOf returns an entity in the slices of r.
func entityOf(r annals.SliceRange) annals.PersistenceID {
	for i := 0; ; i++ {
		if id := annals.NewPersistenceID("T", fmt.Sprint(i)); r.Contains(id.Slice()) {
			return id
		}
	}
}

// work handles one event after another, and takes the time of a batch for each.
func (n *node) work(ctx context.Context, r annals.SliceRange, epoch int64) error {
	n.mu.Lock()
	if n.working[r]++; n.working[r] > 1 {
		n.overlap++
	}
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.working[r]--
	}()
	if old := (annals.Progress{Projection: "p", Slices: r, Epoch: epoch - 1}); epoch > 1 && !n.noSave {
		if err := n.world.store.Offsets().Save(ctx, old); !errors.Is(err, annals.ErrFenced) && ctx.Err() == nil {
			n.Errorf("range %v was taken under epoch %d, and a save under the epoch before: %v, want ErrFenced", r, epoch, err)
		}
	}
	id, batch := entityOf(r), finishing(ctx)
	for {
		done, err := n.link.Offsets().Handled(ctx, "p", id)
		for err == nil && ctx.Err() == nil {
			next := annals.Offset{ID: id, SeqNr: done[0].SeqNr + 1, Time: time.Unix(int64(done[0].SeqNr+1), 0)}
			select {
			case <-time.After(n.batch):
			case <-batch.Done():
				return ctx.Err()
			}
			if err = n.link.handle(batch, annals.Progress{Projection: "p", Slices: r, Epoch: epoch, Offsets: []annals.Offset{next}}); err == nil {
				done[0] = next
			}
		}
		switch {
		case errors.Is(err, annals.ErrFenced):
			n.mu.Lock()
			defer n.mu.Unlock()
			n.fenced++
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case final(err):
			return err
		}
		select { // read the position again
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// total is how many events were handled.
func (w *world) total() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, all := range w.handled {
		n += len(all)
	}
	return n
}

// counts is how many events of each entity were handled; each range has one.
func (w *world) counts() map[annals.PersistenceID]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[annals.PersistenceID]int{}
	for _, r := range annals.SliceRanges(w.ranges) {
		id := entityOf(r)
		all[id] = len(w.handled[id])
	}
	return all
}

// faults counts events that were handled twice, and those that were left out.
func (w *world) faults() (doubled, skipped int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, all := range w.handled {
		sorted := slices.Sorted(slices.Values(all))
		unique := slices.Compact(slices.Clone(sorted))
		doubled += len(sorted) - len(unique)
		skipped += int(sorted[len(sorted)-1]) - len(unique)
	}
	return doubled, skipped
}

func (w *world) record() record {
	w.Helper()
	r, _, err := recordOf("p").Load(w.ctx, w.store)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// revision is how often the record has been written.
func (w *world) revision() annals.SeqNr {
	w.Helper()
	_, n, err := recordOf("p").Load(w.ctx, w.store)
	if err != nil {
		w.Fatal(err)
	}
	return n
}

// shared waits until n runners share the ranges fairly, at most for the time within.
func (w *world) shared(n int, within time.Duration) {
	w.Helper()
	began := time.Now()
	for {
		r := w.record()
		err := unfair(r, holder)
		if err == nil && len(r.Runners) == n {
			w.Logf("%d runners share the ranges after %v", n, time.Since(began))
			return
		}
		if time.Since(began) > within {
			w.Fatalf("%d runners after %v: %v, %+v", n, within, err, r)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// check fails when an event was handled twice or left out, or when a range is not handled.
func (w *world) check() {
	w.Helper()
	if doubled, skipped := w.faults(); doubled+skipped > 0 {
		w.Errorf("doubled %d, skipped %d", doubled, skipped)
	}
	w.mu.Lock()
	before := maps.Clone(w.handled)
	w.mu.Unlock()
	time.Sleep(time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range annals.SliceRanges(w.ranges) {
		if id := entityOf(r); len(w.handled[id]) < len(before[id])+5 {
			w.Errorf("range %v: %d events were handled, a second later %d", r, len(before[id]), len(w.handled[id]))
		}
	}
}

// link is the way from a runner to the store.
type link struct {
	faulty.Store
	stop  faulty.Gate // shut while the process is stopped: no call begins or returns
	world *world

	mu    sync.Mutex
	fault func(op string) (before, after error) // of each call, nil = none
	calls map[string]int
	saved map[annals.SliceRange]int64 // events
}

func (l *link) steps(r annals.SliceRange) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.saved[r]
}

func newLink(w *world) *link {
	l := &link{Store: faulty.Store{Store: w.store}, world: w, calls: map[string]int{}, saved: map[annals.SliceRange]int64{}}
	l.Around = func(_ context.Context, c *faulty.Call, run func() error) error {
		if p, ok := c.Arg.(*annals.Progress); ok && w.noSave {
			p.Epoch = 0
		}
		return l.call(c.Op, run)
	}
	return l
}

func (l *link) setFault(f func(op string) (before, after error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = f
}

// call makes a call over the link. The context does not help a process that is stopped, but the end of the test does.
func (l *link) call(op string, f func() error) error {
	l.stop.Pass(l.world.ctx)
	defer l.stop.Pass(l.world.ctx)
	l.mu.Lock()
	fault := l.fault
	l.calls[op]++
	l.mu.Unlock()
	var before, after error
	if fault != nil {
		before, after = fault(op)
	}
	if before != nil {
		return before
	}
	if err := f(); err != nil {
		return err
	}
	return after
}

// handle counts the events of p and saves p, in one transaction.
func (l *link) handle(ctx context.Context, p annals.Progress) error {
	if l.world.noSave {
		p.Epoch = 0
	}
	err := l.call("handle", func() error {
		return l.world.store.InTx(ctx, func(ctx context.Context, _ memstore.Tx, in annals.Store) error {
			if err := in.Offsets().Save(ctx, p); err != nil {
				return err
			}
			l.world.mu.Lock()
			defer l.world.mu.Unlock()
			for _, o := range p.Offsets {
				l.world.handled[o.ID] = append(l.world.handled[o.ID], o.SeqNr)
			}
			return nil
		})
	})
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.saved[p.Slices]++
	}
	return err
}
