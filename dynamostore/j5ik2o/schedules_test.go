package j5ik2o_test

import (
	"testing"

	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
)

// Reads are complete in random schedules, with every option.
func TestSchedules(t *testing.T) {
	t.Parallel()
	plantest.RandomSchedules(t, map[string]plan.Layout{
		"id and id":              layout(j5ik2o.Journal{}, j5ik2o.Keys, false),
		"hard delete":            layout(j5ik2o.Journal{HardDelete: true}, j5ik2o.Keys, false),
		"number and plain":       layout(j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, SortKey: j5ik2o.BySeqNr, ShardCount: 3}, j5ik2o.Keys, false),
		"number and number":      layout(j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, SortKey: j5ik2o.ByNumber, ShardCount: 3}, j5ik2o.Keys, false),
		"number, hard delete":    layout(j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, SortKey: j5ik2o.ByNumber, ShardCount: 3, HardDelete: true}, j5ik2o.Keys, false),
		"plain, hard delete":     layout(j5ik2o.Journal{SortKey: j5ik2o.BySeqNr, HardDelete: true}, j5ik2o.Keys, false),
		"through the index":      layout(j5ik2o.Journal{}, j5ik2o.Index, false),
		"index and hard deletes": layout(j5ik2o.Journal{HardDelete: true}, j5ik2o.Index, false),
		"legacy":                 layout(j5ik2o.Journal{}, j5ik2o.Keys, true),
	})
}

// layout has the settings of the journal for the snapshots, too.
func layout(j j5ik2o.Journal, through j5ik2o.ReadThrough, legacy bool) j5ik2o.Layout {
	s := j5ik2o.Snapshot{PartitionKey: j.PartitionKey, SortKey: j.SortKey, ShardCount: j.ShardCount, Legacy: legacy}
	if legacy {
		s = j5ik2o.Snapshot{Legacy: true}
	}
	return j5ik2o.Layout{ShardCount: 1 << 20, ReadThrough: through, Journal: j, Snapshot: s}
}
