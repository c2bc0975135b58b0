package commit

import (
	"sync"

	"github.com/annals-go/annals"
)

// depths estimates how many items a recovery reads, for the limit of its first page. Without a limit the query would read, and be charged
// for, a megabyte beyond the snapshot. Each entity type has its own estimate, because entities of one type have snapshots at
// similar distances.
type depths struct {
	mu     sync.Mutex
	byType map[string]int
}

const (
	depthFirst = 30 // the limit before there is an estimate
	depthMost  = 900
	depthTypes = 1000 // the most types with an estimate
)

// limit returns the limit of the first page of a recovery.
func (d *depths) limit(id annals.PersistenceID) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := d.byType[id.Type()]
	if !ok {
		return depthFirst
	}
	return n + n/8 + 2
}

// learn records how many items a recovery has read. The estimate tends to what nine of ten recoveries read: a recovery that reads more
// raises it by a quarter, so that a single one has little effect on the others, and any other lowers it by a 32nd.
func (d *depths) learn(id annals.PersistenceID, items int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := d.byType[id.Type()]
	switch {
	case !ok:
		n = min(items, depthFirst)
	case items > n:
		n = min(n+n/4+1, items, depthMost)
	default:
		n = max(n-n/32-1, items)
	}
	if d.byType == nil || len(d.byType) == depthTypes && !ok {
		d.byType = map[string]int{}
	}
	d.byType[id.Type()] = n
}
