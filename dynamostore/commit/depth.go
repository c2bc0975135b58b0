package commit

import (
	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// depths estimates how many items a recovery reads, for the limit of its first page. Without a limit the query would read, and be charged
// for, a megabyte beyond the snapshot. Each entity type has its own estimate, because entities of one type have snapshots at
// similar distances.
type depths struct{ byType plan.Recent[string, int] }

const (
	depthFirst = 30 // the limit before there is an estimate
	depthMost  = 900
)

// limit returns the limit of the first page of a recovery.
func (d *depths) limit(id annals.PersistenceID) int {
	n, ok := d.byType.Get(id.Type())
	if !ok {
		return depthFirst
	}
	return n + n/8 + 2
}

// learn records how many items a recovery has read. The estimate tends to what nine of ten recoveries read: a recovery that reads more
// raises it by a quarter, so that a single one has little effect on the others, and any other lowers it by a 32nd.
func (d *depths) learn(id annals.PersistenceID, items int) {
	d.byType.Change(id.Type(), func(n int, known bool) int {
		switch {
		case !known:
			return min(items, depthFirst)
		case items > n:
			return min(n+n/4+1, items, depthMost)
		}
		return max(n-n/32-1, items)
	})
}
