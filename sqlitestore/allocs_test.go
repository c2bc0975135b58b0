package sqlitestore_test

import (
	"testing"

	"github.com/annals-go/annals/sqlitestore"
)

// An append of one event by a lone writer allocates little; half of it is the driver's.
func TestAppendAllocates(t *testing.T) {
	s := open(t, sqlitestore.Options{})
	c := benchCommit(1, 0)
	allocations := testing.AllocsPerRun(200, func() { c.After = mustAppend(t, s, c).SeqNr })
	if t.Log(allocations); allocations > 45 {
		t.Errorf("%v allocations an append, want at most 45", allocations)
	}
}
