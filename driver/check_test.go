package driver_test

import (
	"context"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
)

// stuck is a store whose snapshots have number 7, whatever is asked for.
type stuck struct{ *backend }

func (stuck) Capabilities() annals.Capabilities {
	return annals.Capabilities{Snapshots: true, ManySnapshots: true}
}
func (stuck) Snapshots() annals.SnapshotStore { return stuckSnapshots{} }

type stuckSnapshots struct{ annals.SnapshotStore }

func (stuckSnapshots) Latest(context.Context, annals.PersistenceID, annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	return annals.Snapshot{SeqNr: 7}, true, nil
}

// A check ends, whatever snapshots the Driver returns.
func TestCheckOfTheSameSnapshot(t *testing.T) {
	t.Parallel()
	found, err := driver.New(stuck{&backend{}}, driver.Options{}).Unwrap().(ability.Checker).Check(t.Context(), "A|1", nil)
	if err != nil || len(found) != 1 || found[0].Code != ability.Snapshot {
		t.Errorf("found %v, %v", found, err)
	}
}
