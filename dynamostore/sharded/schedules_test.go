package sharded_test

import (
	"testing"

	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/sharded"
)

// Reads are complete in random schedules, with every option.
func TestSchedules(t *testing.T) {
	t.Parallel()
	plantest.RandomSchedules(t, map[string]plan.Layout{
		"id and id":              layout(sharded.Journal{}, sharded.Keys, false),
		"hard delete":            layout(sharded.Journal{HardDelete: true}, sharded.Keys, false),
		"number and plain":       layout(sharded.Journal{PartitionKey: sharded.SequenceNumberBased, SortKey: sharded.BySeqNr, ShardCount: 3}, sharded.Keys, false),
		"number and number":      layout(sharded.Journal{PartitionKey: sharded.SequenceNumberBased, SortKey: sharded.ByNumber, ShardCount: 3}, sharded.Keys, false),
		"number, hard delete":    layout(sharded.Journal{PartitionKey: sharded.SequenceNumberBased, SortKey: sharded.ByNumber, ShardCount: 3, HardDelete: true}, sharded.Keys, false),
		"plain, hard delete":     layout(sharded.Journal{SortKey: sharded.BySeqNr, HardDelete: true}, sharded.Keys, false),
		"through the index":      layout(sharded.Journal{}, sharded.Index, false),
		"index and hard deletes": layout(sharded.Journal{HardDelete: true}, sharded.Index, false),
		"legacy":                 layout(sharded.Journal{}, sharded.Keys, true),
	})
}

// layout has the settings of the journal for the snapshots, too.
func layout(j sharded.Journal, through sharded.ReadThrough, legacy bool) sharded.Layout {
	s := sharded.Snapshot{PartitionKey: j.PartitionKey, SortKey: j.SortKey, ShardCount: j.ShardCount, Legacy: legacy}
	if legacy {
		s = sharded.Snapshot{Legacy: true}
	}
	return sharded.Layout{ShardCount: 1 << 20, ReadThrough: through, Journal: j, Snapshot: s}
}
