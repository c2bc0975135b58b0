package projection

import (
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
		w.sleep(5 * time.Hour)
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
