package grouped_test

import (
	"testing"

	"github.com/annals-go/annals/dynamostore/grouped"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// Reads are complete in random schedules, with every option.
func TestSchedules(t *testing.T) {
	t.Parallel()
	plantest.RandomSchedules(t, map[string]plan.Layout{
		"new":        grouped.Layout{},
		"old format": grouped.Layout{Journal: grouped.Journal{Old: true}, Snapshot: grouped.Snapshot{Old: true}},
		"gaps":       grouped.Layout{Journal: grouped.Journal{Gaps: true}},
		"few ahead":  grouped.Layout{Journal: grouped.Journal{ReplayAhead: 1, SequenceShards: 2}},
	})
}
