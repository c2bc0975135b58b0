package esa_test

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
		"plain":            esa.Layout{Shards: 3, Format: esa.Plain{}},
		"write ids":        esa.Layout{Shards: 3, Format: esa.Plain{}, WriteIDs: true},
		"copies":           esa.Layout{Shards: 3, Format: esa.Plain{}, Snapshot: esa.Snapshot{Keep: 2}},
		"expiring copies":  esa.Layout{Shards: 3, Format: esa.Plain{}, Snapshot: esa.Snapshot{Keep: 1, Expire: time.Hour}},
		"gaps":             esa.Layout{Shards: 3, Format: esa.Plain{}, Journal: esa.Journal{Gaps: true}},
		"gaps, write ids":  esa.Layout{Shards: 3, Format: esa.Plain{}, WriteIDs: true, Journal: esa.Journal{Gaps: true}},
		"js 3":             esa.Layout{Peer: esa.JS3, Shards: 3, Format: esa.Plain{}},
		"js 3 with copies": esa.Layout{Peer: esa.JS3, Shards: 3, Format: esa.Plain{}, WriteIDs: true, Snapshot: esa.Snapshot{Keep: 2}},
		"js 3 with gaps":   esa.Layout{Peer: esa.JS3, Shards: 3, Format: esa.Plain{}, Journal: esa.Journal{Gaps: true}},
	})
}
