package projection

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/annals-go/annals/internal/random"
)

// A write of the record takes up to five leases, and the work on an event takes 300: at first the runners take each other for dead long before a work has
// saved anything. They are given more time, so that each range goes on.
func TestGroupSlowWorks(t *testing.T) {
	t.Parallel()
	inWorld(t, 4, func(t *testing.T, w *world) {
		random := random.New(t)
		w.batch = 300 * testLease
		slow := func(n *node) {
			n.link.fault = func(op string) (before, after error) {
				if op == "put state" {
					w.sleep(random.Below(5 * testLease))
				}
				return nil, nil
			}
		}
		nodes := []*node{w.join(slow), w.join(slow), w.join(slow)}
		w.sleep(6 * time.Hour)
		before := w.counts()
		w.sleep(10 * time.Hour) // in four hours each runner may be taken for dead once more, which costs its ranges an hour
		for id, n := range w.counts() {
			t.Logf("%s: %d events in the first hours, %d later", id, before[id], n-before[id])
			if n < before[id]+2 {
				t.Errorf("%s does not go on", id)
			}
		}
		if doubled, skipped := w.faults(); doubled+skipped > 0 || w.fenced == 0 {
			t.Errorf("doubled %d, skipped %d, %d works were fenced", doubled, skipped, w.fenced)
		}
		for _, n := range nodes {
			n.link.setFault(nil)
			n.stop()
		}
	})
}

// A runner that was taken for dead, and so has a longer lease, leaves also where a write takes longer than the lease of the options. The others
// need not wait then.
func TestGroupSlowLeave(t *testing.T) {
	t.Parallel()
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.batch = 10 * testLease
		one := w.join(nil)
		w.sleep(testLease)
		two := w.join(nil)
		w.shared(2, 2*w.batch)
		w.sleep(time.Second) // its works have just begun
		two.link.stop.Shut()
		w.shared(1, 2*w.batch)
		two.link.stop.Open()
		w.sleep(testLease)
		if !slices.ContainsFunc(slices.Collect(maps.Values(w.record().Runners)), func(r runner) bool { return r.lease() > testLease }) {
			t.Errorf("no runner has a longer lease: %+v", w.record())
		}
		two.link.setFault(func(op string) (before, after error) {
			if op == "put state" {
				w.sleep(3 * testLease / 2)
			}
			return nil, nil
		})
		two.leave()
		if n := len(w.record().Runners); n != 1 {
			t.Errorf("after one of two runners has left there are %d", n)
		}
		one.leave()
	})
}
