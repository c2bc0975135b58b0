package dynamostore_test

import (
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/dynamostore"
)

// Deleting the snapshot before a new one reads the events between the two, but not the entity's whole history.
func TestPruningCosts(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	s := openCommit(t, client(t), dynamostore.Options{Observer: seen})
	counters, err := aggregate.New(s, behavior.EventSourced[int, int, int, int]{
		Type:          "Counter",
		Decide:        func(_, add int) ([]int, error) { return []int{add}, nil },
		Evolve:        func(total, added int) int { return total + added },
		SnapshotEvery: 10,
	}, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id := annals.NewPersistenceID("Counter", "1")
	last := fill(t.Context(), t, s, id, 2_000, 100, 300)
	state, err := codec.JSON[int]("Counter").Encode(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: id, SeqNr: last, Payload: state}); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := counters.Ask(t.Context(), "1", 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := counters.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := seen.last(); r.Op != "delete snapshots" || r.Requests != 2 || r.ReadUnits > 10 {
		t.Errorf("%s: %d requests, %v read units; want a delete of snapshots by 2 requests and at most 10 units", r.Op, r.Requests, r.ReadUnits)
	}
	newest, ok, err := s.Snapshots().Latest(t.Context(), id, annals.SnapshotCriteria{})
	if err != nil || !ok || newest.SeqNr != last+10 {
		t.Errorf("the newest snapshot is %d (%v, %v), want %d", newest.SeqNr, ok, err, last+10)
	}
	if s, ok, err := s.Snapshots().Latest(t.Context(), id, annals.SnapshotCriteria{MaxSeqNr: last}); ok || err != nil {
		t.Errorf("snapshot %d is still there (%v)", s.SeqNr, err)
	}
}
