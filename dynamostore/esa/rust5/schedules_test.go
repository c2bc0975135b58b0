package rust5_test

import (
	"testing"
	"time"

	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// Reads are complete in random schedules, with every option.
func TestSchedules(t *testing.T) {
	t.Parallel()
	plantest.RandomSchedules(t, map[string]plan.Layout{
		"plain": esa.Layout{Peer: esa.Rust5}, "copies": esa.Layout{Peer: esa.Rust5, Snapshot: esa.Snapshot{Keep: 2}}, "expiring copies": esa.Layout{Peer: esa.Rust5, Snapshot: esa.Snapshot{Keep: 1, Expire: time.Hour}},
		"write ids": esa.Layout{Peer: esa.Rust5, WriteIDs: true}, "gaps": esa.Layout{Peer: esa.Rust5, Journal: esa.Journal{Gaps: true}},
	})
}
