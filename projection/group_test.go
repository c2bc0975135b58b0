package projection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/memstore"
)

// Runners join and leave in order: the ranges are shared again soon, no two works of a range run at the same time, and nothing is handled
// twice or left out.
func TestGroupJoinAndLeave(t *testing.T) {
	t.Parallel()
	inWorld(t, 8, func(t *testing.T, w *world) {
		var nodes []*node
		for n := range 5 {
			nodes = append(nodes, w.join(nil))
			w.shared(n+1, testLease)
		}
		for n := range 4 {
			nodes[n].leave()
			w.shared(4-n, testLease)
		}
		w.check()
		nodes[4].leave()
		if r := w.record(); len(r.Runners) > 0 || shares(r, holder)[""] != 8 {
			t.Errorf("after the last has left: %+v", r)
		}
		if w.overlap+w.fenced > 0 {
			t.Errorf("%d works overlapped, %d were fenced", w.overlap, w.fenced)
		}
	})
}

// A runner crashes: after its lease the others have its ranges.
func TestGroupCrash(t *testing.T) {
	t.Parallel()
	inWorld(t, 8, func(t *testing.T, w *world) {
		nodes := []*node{w.join(nil), w.join(nil), w.join(nil)}
		w.shared(3, 2*testLease)
		w.sleep(time.Minute)
		nodes[1].link.stop.Shut()
		w.shared(2, 2*testLease)
		w.check()
		nodes[0].leave()
		nodes[2].leave()
	})
}

// A runner is stopped for longer than its lease, in the middle of its work, and then goes on: it cannot save any more, and takes part
// again. Without the fence its events would count twice.
func TestGroupStoppedRunner(t *testing.T) {
	t.Parallel()
	for _, unfenced := range []bool{false, true} {
		t.Run(fmt.Sprintf("unfenced=%v", unfenced), func(t *testing.T) {
			t.Parallel()
			inWorld(t, 4, func(t *testing.T, w *world) {
				w.noSave = unfenced
				one, two := w.join(nil), w.join(nil)
				w.shared(2, 2*testLease)
				for range 5 {
					w.sleep(time.Second) // each work saves something, so that the lease stays as it is
					one.link.stop.Shut()
					w.shared(1, 2*testLease)
					w.sleep(time.Minute)
					one.link.stop.Open()
					w.shared(2, testLease)
				}
				if !unfenced {
					w.check()
					if w.fenced < 5 {
						t.Errorf("%d works were fenced, want one or more each time", w.fenced)
					}
				} else if doubled, _ := w.faults(); doubled == 0 {
					t.Error("a lease without a fence, and nothing was handled twice")
				}
				one.leave()
				two.leave()
			})
		})
	}
}

// Answers are lost, calls fail, and runners come and go meanwhile.
func TestGroupWithFaults(t *testing.T) {
	t.Parallel()
	inWorld(t, 8, func(t *testing.T, w *world) {
		random := random.New(t)
		faulty := func(n *node) {
			n.link.fault = func(string) (before, after error) {
				switch random.IntN(10) {
				case 0:
					return &annals.Error{Op: "test", Kind: annals.ErrUnavailable}, nil
				case 1:
					return nil, &annals.Error{Op: "test", Kind: annals.ErrUnknown}
				case 2:
					return &annals.Error{Op: "test", Kind: annals.ErrUnknown}, nil
				}
				return nil, nil
			}
		}
		nodes := []*node{w.join(faulty), w.join(faulty)}
		for range 10 {
			nodes = append(nodes, w.join(faulty))
			w.sleep(20 * time.Second)
			if random.OneIn(2) {
				nodes[0].leave()
			} else {
				nodes[0].link.stop.Shut()
			}
			nodes = nodes[1:]
			w.sleep(random.Below(30 * time.Second))
		}
		w.shared(2, 3*testLease)
		for _, n := range nodes {
			n.link.setFault(nil)
		}
		w.check()
		for _, n := range nodes {
			n.leave()
		}
		t.Logf("%d events handled, %d works fenced, epoch %d", w.total(), w.fenced, w.record().Epoch)
	})
}

// The store cannot be reached, or takes no writes, for longer than the lease: no runner is taken for dead, and all keep their ranges.
func TestGroupOutage(t *testing.T) {
	t.Parallel()
	outages := map[string]func(op string) (before, after error){
		"of all": func(string) (before, after error) { return &annals.Error{Op: "test", Kind: annals.ErrUnavailable}, nil },
		"of writes": func(op string) (before, after error) {
			if op == "put state" {
				before = &annals.Error{Op: "test", Kind: annals.ErrUnavailable}
			}
			return before, nil
		},
	}
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, 8, func(t *testing.T, w *world) {
				nodes := []*node{w.join(nil), w.join(nil), w.join(nil)}
				w.shared(3, 2*testLease)
				before := w.record()
				for _, n := range nodes {
					n.link.setFault(outage)
				}
				w.sleep(time.Minute)
				for _, n := range nodes {
					n.link.setFault(nil)
				}
				w.sleep(time.Minute)
				if after := w.record(); !slices.Equal(before.Ranges, after.Ranges) {
					t.Errorf("the ranges were %v, after the outage %v", before.Ranges, after.Ranges)
				}
				w.check()
				for _, n := range nodes {
					n.leave()
				}
			})
		})
	}
}

// A Reset fences the holders: they take their ranges anew and begin where the reset says.
func TestGroupReset(t *testing.T) {
	t.Parallel()
	inWorld(t, 4, func(t *testing.T, w *world) {
		one, two := w.join(nil), w.join(nil)
		w.shared(2, 2*testLease)
		w.sleep(10 * time.Second)
		one.link.stop.Shut() // so that no range is taken between two of the resets
		two.link.stop.Shut()
		before, revision := w.record(), w.revision()
		for range 100 { // the epochs of the store rise above that of the record
			if err := w.store.Offsets().Reset(t.Context(), "p", annals.SliceRange{}, annals.Offset{}); err != nil {
				t.Fatal(err)
			}
		}
		w.mu.Lock()
		w.handled = map[annals.PersistenceID][]annals.SeqNr{}
		w.mu.Unlock()
		one.link.stop.Open()
		two.link.stop.Open()
		w.sleep(2 * time.Second)
		w.check()
		if w.fenced != 4 {
			t.Errorf("%d works were fenced, want 4", w.fenced)
		}
		if n := w.revision() - revision; n > 20 {
			t.Errorf("the ranges were taken anew by %d writes of the record", n)
		}
		after := w.record()
		for i, l := range after.Ranges {
			if l.Runner != before.Ranges[i].Runner || l.Epoch < before.Ranges[i].Epoch+100-4 {
				t.Errorf("before the reset %+v, after it %+v", before.Ranges[i], l)
			}
		}
		one.leave()
		two.leave()
	})
}

// A work may be fenced though the others have not taken its runner for dead, as by a Reset. The runner has the same lease then as before.
func TestGroupResetBeforeTheFirstSave(t *testing.T) {
	t.Parallel()
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.batch = 3 * testLease
		n := w.join(nil)
		w.sleep(testLease)
		for range 2 {
			if err := w.store.Offsets().Reset(t.Context(), "p", annals.SliceRange{}, annals.Offset{}); err != nil {
				t.Fatal(err)
			}
		}
		w.sleep(w.batch)
		for id, r := range w.record().Runners {
			if r.lease() != testLease || w.fenced != 4 {
				t.Errorf("runner %s has a lease of %v, and %d works were fenced", id, r.lease(), w.fenced)
			}
		}
		n.leave()
	})
}

// The events that a work has found too late are counted, also when it ends before the runner looks again.
func TestGroupCountsLateEventsOfEndedWorks(t *testing.T) {
	t.Parallel()
	inWorld(t, 4, func(t *testing.T, w *world) {
		all := map[annals.SliceRange]*condition{}
		var mu sync.Mutex
		var found sync.WaitGroup
		found.Add(4)
		n := w.join(func(n *node) {
			n.tell = func(context.Context, annals.Call, annals.Result) {}
			n.health = func(r annals.SliceRange) *condition {
				mu.Lock()
				defer mu.Unlock()
				if all[r] == nil {
					all[r] = &condition{timeout: time.Hour, grace: time.Hour}
				}
				return all[r]
			}
			n.handles = func(_ context.Context, r annals.SliceRange, _ int64) error {
				n.health(r).late(1)
				found.Done()
				found.Wait()
				return annals.ErrClosed
			}
		})
		<-n.end
		if late := w.record().Late; late != 4 || !errors.Is(n.err, annals.ErrClosed) {
			t.Errorf("%d late events of 4 are counted, %v", late, n.err)
		}
	})
}

// While a projection is paused, no range is held.
func TestGroupPause(t *testing.T) {
	t.Parallel()
	inWorld(t, 4, func(t *testing.T, w *world) {
		one, two := w.join(nil), w.join(nil)
		w.shared(2, 2*testLease)
		set := func(paused bool) {
			err := recordOf("p").Change(t.Context(), w.store, func(r *record) error {
				r.Paused = paused
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			w.sleep(testLease / 2)
		}
		set(true)
		if r := w.record(); shares(r, holder)[""] != 4 {
			t.Errorf("paused: %+v", r)
		}
		handled := w.total()
		w.sleep(time.Minute)
		three := w.join(nil)
		w.sleep(time.Minute)
		if n := w.total(); n != handled {
			t.Errorf("%d events were handled during the pause", n-handled)
		}
		set(false)
		w.shared(3, 0)
		w.check()
		for _, n := range []*node{one, two, three} {
			n.leave()
		}
	})
}

// The runners' clocks run at different speeds, and step. They take each other for dead all the time, but no event is handled twice.
func TestGroupClocks(t *testing.T) {
	t.Parallel()
	inWorld(t, 8, func(t *testing.T, w *world) {
		clock := func(speed float64, steps ...time.Duration) func(*node) {
			return func(n *node) {
				began, looks := time.Now(), 0
				n.now = func() time.Time {
					looks++
					at := began.Add(time.Duration(speed * float64(time.Since(began))))
					if len(steps) > 0 {
						at = at.Add(steps[looks%len(steps)])
					}
					return at
				}
			}
		}
		nodes := []*node{
			w.join(clock(0.01)), w.join(clock(1)), w.join(clock(50)), w.join(clock(1, 0, time.Hour, -time.Hour)), w.join(clock(-3)),
		}
		w.sleep(5 * time.Minute)
		doubled, skipped := w.faults()
		t.Logf("%d events handled, %d works fenced, %d overlapped, epoch %d", w.total(), w.fenced, w.overlap, w.record().Epoch)
		if doubled+skipped > 0 {
			t.Errorf("doubled %d, skipped %d", doubled, skipped)
		}
		if w.total() < 1000 {
			t.Errorf("only %d events were handled", w.total())
		}
		if w.overlap == 0 {
			t.Error("nobody was taken for dead: the clocks made no difference")
		}
		for _, n := range nodes {
			n.leave()
		}
	})
}

// A range is free for others only after the work has returned, however long that takes.
func TestGroupHandsOverAfterTheBatch(t *testing.T) {
	t.Parallel()
	inWorld(t, 2, func(t *testing.T, w *world) {
		var ended sync.Map
		batch := func(ctx context.Context, r annals.SliceRange, epoch int64) error {
			<-ctx.Done()
			w.sleep(3 * testLease)
			ended.Store(r, epoch)
			return errors.New("of no interest after the end of ctx")
		}
		one := w.join(func(n *node) { n.handles = batch })
		w.shared(1, testLease)
		began := time.Now()
		two := w.join(nil)
		w.shared(2, 4*testLease)
		if took := time.Since(began); took < 3*testLease {
			t.Errorf("handed over after %v, while the work was still running", took)
		}
		n := 0
		ended.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Errorf("%d works ended, want 1", n)
		}
		one.leave()
		two.leave()
	})
}

// The error of a work ends run, after the other works have returned.
func TestGroupWorkFails(t *testing.T) {
	t.Parallel()
	inWorld(t, 4, func(t *testing.T, w *world) {
		failed := errors.New("stop")
		other := 0
		g := &group{store: w.store, projection: "p", source: source{Type: "T"}, ranges: 4, lease: testLease, log: slog.New(slog.DiscardHandler), now: time.Now, steps: func(annals.SliceRange) int64 { return 0 }}
		err := g.run(t.Context(), func(ctx context.Context, r annals.SliceRange, _ int64) error {
			if r.From == 0 {
				w.sleep(time.Minute)
				return failed
			}
			<-ctx.Done()
			w.sleep(time.Second)
			w.mu.Lock()
			defer w.mu.Unlock()
			other++
			return ctx.Err()
		})
		if !errors.Is(err, failed) || other != 3 {
			t.Errorf("run: %v, %d other works have returned", err, other)
		}
		if r := w.record(); len(r.Runners) != 0 {
			t.Errorf("it has not left: %+v", r)
		}
	})
}

// A projection follows the events that it began with. The number of ranges stays the same while there are runners.
func TestGroupSettings(t *testing.T) {
	t.Parallel()
	inWorld(t, 4, func(t *testing.T, w *world) {
		n := w.join(nil)
		w.shared(1, testLease)
		n.leave()
		n = w.join(func(n *node) { n.source.Tag = "x" })
		if err := n.ended(); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("another tag: %v, want ErrInvalid", err)
		}
		n = w.join(func(n *node) { n.group.ranges = 2 })
		w.shared(1, testLease)
		other := w.join(func(n *node) { n.group.ranges = 4 })
		w.shared(2, testLease)
		if got := len(w.record().Ranges); got != 2 {
			t.Errorf("%d ranges, want 2", got)
		}
		n.leave()
		other.leave()
		closed := memstore.New()
		if err := closed.Close(); err != nil {
			t.Fatal(err)
		}
		n = w.join(func(n *node) { n.link.Store.Store = closed })
		if err := n.ended(); !errors.Is(err, annals.ErrClosed) {
			t.Errorf("a closed store: %v, want ErrClosed", err)
		}
	})
}

// holdOnly is a work that handles nothing.
func holdOnly(ctx context.Context, _ annals.SliceRange, _ int64) error {
	<-ctx.Done()
	return nil
}

// A runner that is alone makes one request for each sign of life, one beside others makes two.
func TestGroupRequests(t *testing.T) {
	t.Parallel()
	inWorld(t, 4, func(t *testing.T, w *world) {
		idle := func(n *node) { n.handles = holdOnly }
		one := w.join(idle)
		w.shared(1, testLease)
		requests := func(n *node) (gets, puts int) {
			count := func() (int, int) {
				n.link.mu.Lock()
				defer n.link.mu.Unlock()
				return n.link.calls["get state"], n.link.calls["put state"]
			}
			g0, p0 := count()
			w.sleep(time.Hour)
			g1, p1 := count()
			return g1 - g0, p1 - p0
		}
		const beats = int(3 * time.Hour / testLease)
		if gets, puts := requests(one); gets > 0 || puts < beats*9/10 || puts > beats*11/10 {
			t.Errorf("alone: %d gets and %d puts in an hour, want 0 and about %d", gets, puts, beats)
		}
		two := w.join(idle)
		w.shared(2, testLease)
		if gets, puts := requests(one); gets > beats*12/10 || puts > beats*12/10 {
			t.Errorf("of two: %d gets and %d puts in an hour, want at most %d", gets, puts, beats*12/10)
		}
		one.leave()
		two.leave()
	})
}

// Each write of the record takes longer than the lease, and most of them are conflicts. The runners come to equal shares, and then no range
// moves.
func TestGroupSlowWrites(t *testing.T) {
	t.Parallel()
	inWorld(t, 8, func(t *testing.T, w *world) {
		random := random.New(t)
		slow := func(n *node) {
			n.handles = holdOnly
			n.link.fault = func(op string) (before, after error) {
				if op == "put state" {
					w.sleep(testLease*3/2 + random.Below(testLease/10))
				}
				return nil, nil
			}
		}
		var nodes []*node
		for range 4 {
			nodes = append(nodes, w.join(slow))
		}
		w.shared(4, 6*time.Hour)
		before := w.record()
		w.sleep(time.Hour)
		if after := w.record(); !slices.Equal(before.Ranges, after.Ranges) {
			t.Errorf("the ranges were %v, an hour later %v", before.Ranges, after.Ranges)
		}
		for _, n := range nodes {
			n.link.setFault(nil)
			n.leave()
		}
	})
}
