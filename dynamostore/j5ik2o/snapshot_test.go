package j5ik2o_test

import (
	"errors"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
)

// Akka takes some serializer ids in the header of a snapshot for that of Akka 2.3, and refuses the snapshot.
func TestSnapshotsThatAkkaRefuses(t *testing.T) {
	t.Parallel()
	offer, err := j5ik2o.Layout{}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	snapshots := offer.On(plantest.New(offer.Tables)).Snapshots
	for id, refused := range map[int32]bool{0xedac: true, -1: true, 0xedab: false} {
		err := snapshots.Save(t.Context(), annals.Snapshot{ID: "Thread-42", SeqNr: 1, Payload: annals.Payload{SerializerID: id, Data: []byte{1}}})
		if errors.Is(err, annals.ErrInvalid) != refused || !refused && err != nil {
			t.Errorf("serializer %d: %v", id, err)
		}
	}
}
