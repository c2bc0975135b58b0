package headtable_test

import (
	"testing"
	"time"

	"github.com/annals-go/annals/dynamostore/headed"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// Reads are complete in random schedules, with every option.
func TestSchedules(t *testing.T) {
	t.Parallel()
	plantest.RandomSchedules(t, map[string]plan.Layout{
		"plain": headed.Layout{Peer: headed.Rust5}, "copies": headed.Layout{Peer: headed.Rust5, Snapshot: headed.Snapshot{Keep: 2}}, "expiring copies": headed.Layout{Peer: headed.Rust5, Snapshot: headed.Snapshot{Keep: 1, Expire: time.Hour}},
		"write ids": headed.Layout{Peer: headed.Rust5, WriteIDs: true}, "gaps": headed.Layout{Peer: headed.Rust5, Journal: headed.Journal{Gaps: true}},
	})
}
