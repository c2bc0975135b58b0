package dynamostore_test

import (
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
)

// A recovery that reads many items does not change the cost of recoveries of other entities.
func TestRecoveryBesideDeepOne(t *testing.T) {
	t.Parallel()
	ctx, seen := t.Context(), &recorder{}
	s := openCommit(t, client(t), dynamostore.Options{Observer: seen})
	recovered := func(id annals.PersistenceID) annals.Result {
		t.Helper()
		if _, err := ability.Recover(ctx, s, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil }); err != nil {
			t.Fatal(err)
		}
		return seen.last().Result
	}
	shallow := annals.NewPersistenceID("Thing", "shallow")
	last := fill(ctx, t, s, shallow, 200, 1, 2000)
	if err := s.Snapshots().Save(ctx, annals.Snapshot{ID: shallow, SeqNr: last, Payload: text("s").Payload}); err != nil {
		t.Fatal(err)
	}
	fill(ctx, t, s, shallow, 5, 1, 2000)
	fill(ctx, t, s, "Thing|deep", 400, 1, 10)
	for range 5 {
		recovered(shallow)
	}
	before := recovered(shallow)
	if deep := recovered("Thing|deep"); deep.Requests > 6 {
		t.Errorf("the deep recovery took %d requests", deep.Requests)
	}
	after := recovered(shallow)
	t.Logf("%v read units before the deep recovery, %v after it", before.ReadUnits, after.ReadUnits)
	if after.Requests != 1 || after.ReadUnits > 1.5*before.ReadUnits {
		t.Errorf("a recovery takes %d requests and %v units after a deep one, %v before", after.Requests, after.ReadUnits, before.ReadUnits)
	}
}
