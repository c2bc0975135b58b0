package commit

import (
	"sync"

	"github.com/annals-go/annals"
)

// depths learn how many items a recovery reads, for the limit of its first page: without one the query would read, and bill,
// a megabyte past the snapshot. Each entity type has its own, as a type's entities have their snapshots at the same distance.
type depths struct {
	mu     sync.Mutex
	byType map[string]int
}

const (
	depthFirst = 30 // before anything is known
	depthMost  = 900
	depthTypes = 1000 // so many types are known at a time
)

// limit is for the first page of a recovery.
func (d *depths) limit(id annals.PersistenceID) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := d.byType[id.Type()]
	if !ok {
		return depthFirst
	}
	return n + n/8 + 2
}

// learn is told how many items a recovery has read. It aims at what nine recoveries of ten read: a deeper one raises it by a
// quarter, so that one alone makes little difference to the others, and any other lowers it by a 32nd.
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
