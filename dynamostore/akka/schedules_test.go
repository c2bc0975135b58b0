package akka_test

import (
	"testing"

	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// Reads are complete in random schedules, with every option.
func TestSchedules(t *testing.T) {
	t.Parallel()
	plantest.RandomSchedules(t, map[string]plan.Layout{
		"new":        akka.Layout{},
		"old format": akka.Layout{Journal: akka.Journal{Old: true}, Snapshot: akka.Snapshot{Old: true}},
		"gaps":       akka.Layout{Journal: akka.Journal{Gaps: true}},
		"few ahead":  akka.Layout{Journal: akka.Journal{ReplayAhead: 1, SequenceShards: 2}},
	})
}
