package akka0_test

import (
	"testing"

	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// Reads are complete in random schedules, with every option.
func TestSchedules(t *testing.T) {
	t.Parallel()
	plantest.RandomSchedules(t, map[string]plan.Layout{
		"marked": akka0.Layout{Table: "t", SequenceShards: 3}, "permanent": akka0.Layout{Table: "t", SequenceShards: 3, Permanent: true},
	})
}
