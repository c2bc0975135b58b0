package projection

import (
	"testing"
	"time"

	"github.com/annals-go/annals"
)

// A thousand processes share 128 ranges: each range has a runner of its own, the others have no entry in the record and take over when one
// leaves or dies. The writes of the record stay below what a key of DynamoDB takes, 1,000 units a second, also where the table has an index: there
// a state takes three units for each kilobyte.
func TestAThousandProcesses(t *testing.T) {
	t.Parallel()
	const processes, ranges, lease = 1000, 128, 30 * time.Second
	inWorld(t, ranges, func(t *testing.T, w *world) {
		var all []*node
		for i := range processes {
			if i == ranges {
				w.sleep(lease)
			}
			all = append(all, w.join(func(n *node) { n.handles, n.lease = holdOnly, lease }))
		}
		holders := func() (size int, revision annals.SeqNr) {
			t.Helper()
			r, revision, err := recordOf("p").Load(w.ctx, w.store)
			if err != nil {
				t.Fatal(err)
			}
			state, _, err := w.store.States().Get(w.ctx, recordOf("p").ID)
			if err != nil {
				t.Fatal(err)
			}
			own := map[string]bool{}
			for _, l := range r.Ranges {
				own[l.Runner] = true
			}
			if len(r.Runners) != ranges || len(own) != ranges || own[""] {
				t.Errorf("%d runners are in the record, %d have ranges, want %d", len(r.Runners), len(own), ranges)
			}
			return len(state.Data), revision
		}
		w.sleep(lease)
		size, before := holders()
		const counted = lease
		w.sleep(counted)
		_, after := holders()
		units := float64(after-before) / counted.Seconds() * 3 * float64((size+1023)/1024)
		t.Logf("a record of %d bytes, %.0f write units a second", size, units)
		if units > 1000 {
			t.Errorf("the record has %d bytes and takes %.0f write units a second", size, units)
		}
		for i, n := range all {
			if i%8 == 0 && i < ranges {
				n.leave()
			}
		}
		w.sleep(lease)
		holders()
	})
}
