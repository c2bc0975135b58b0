package headtable_test

import (
	"testing"
	"time"

	"github.com/annals-go/annals/dynamostore/headtable"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// Reads are complete in random schedules, with every option.
func TestSchedules(t *testing.T) {
	t.Parallel()
	plantest.RandomSchedules(t, map[string]plan.Layout{
		"plain": headtable.Layout{}, "copies": headtable.Layout{Snapshot: headtable.Snapshot{Keep: 2}}, "expiring copies": headtable.Layout{Snapshot: headtable.Snapshot{Keep: 1, Expire: time.Hour}},
		"write ids": headtable.Layout{WriteIDs: true}, "gaps": headtable.Layout{Journal: headtable.Journal{Gaps: true}},
	})
}
