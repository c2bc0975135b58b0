package aggregate_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/memstore"
)

// Options that delete events are refused when they could delete none, or name no projection.
func TestRetentionFaults(t *testing.T) {
	t.Parallel()
	snapshotting := account
	snapshotting.SnapshotEvery = 1
	for fault, c := range map[string]struct {
		b behavior.EventSourced[int, int, int, int]
		o aggregate.Options
	}{
		"Projections without DeleteEvents":   {snapshotting, aggregate.Options{Projections: []string{"list"}}},
		"a projection without a name":        {snapshotting, aggregate.Options{DeleteEvents: true, Projections: []string{"list", ""}}},
		"DeleteEvents without SnapshotEvery": {account, aggregate.Options{DeleteEvents: true, Projections: []string{"list"}}},
	} {
		if _, err := aggregate.New(memstore.New(), c.b, c.o); !errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), fault) {
			t.Errorf("%v, want %q", err, fault)
		}
	}
}
