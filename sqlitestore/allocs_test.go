package sqlitestore_test

import (
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
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

// A recovery from ten events allocates little; most of it is the driver's.
func TestRecoverAllocates(t *testing.T) {
	s := open(t, sqlitestore.Options{})
	for n := range annals.SeqNr(10) {
		mustAppend(t, s, benchCommit(1, n))
	}
	allocations := testing.AllocsPerRun(200, func() {
		last, err := ability.Recover(t.Context(), s, "Bench|1", func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
		if last != 10 || err != nil {
			t.Error(last, err)
		}
	})
	if t.Log(allocations); allocations > 200 {
		t.Errorf("%v allocations a recovery, want at most 200", allocations)
	}
}
