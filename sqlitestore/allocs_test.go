package sqlitestore_test

import (
	"fmt"
	"runtime"
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
	if t.Log(allocations); allocations > 180 {
		t.Errorf("%v allocations a recovery, want at most 180", allocations)
	}
}

// The first write of a state reads nothing, and a read of a state allocates little.
func TestStateAllocates(t *testing.T) {
	s := open(t, sqlitestore.Options{})
	n := 0
	puts := testing.AllocsPerRun(200, func() {
		n++
		if _, err := put(s, annals.PersistenceID(fmt.Sprintf("S|%d", n)), 0, "x"); err != nil {
			t.Error(err)
		}
	})
	gets := testing.AllocsPerRun(200, func() {
		if _, found, err := s.States().Get(t.Context(), "S|1"); !found || err != nil {
			t.Error(found, err)
		}
	})
	if t.Log(puts, gets); puts > 65 || gets > 30 {
		t.Errorf("%v allocations a first write, and %v a read", puts, gets)
	}
}

// A store keeps nothing of what it has written and read.
func TestStoreKeepsNoPayload(t *testing.T) {
	const size = 8 << 20
	s := open(t, sqlitestore.Options{})
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	mustAppend(t, s, commit("T|0", 0, 1))
	before := heap()
	mustAppend(t, s, annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1, Data: make([]byte, size)}}}})
	for e, err := range s.Journal().Replay(t.Context(), "T|1", 1, 1) {
		if len(e.Data) != size || err != nil {
			t.Errorf("%d bytes, %v", len(e.Data), err)
		}
	}
	if kept := heap() - before; kept > size/2 {
		t.Errorf("%d MiB are kept", kept>>20)
	}
}
