package headed_test

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
		"plain":            headed.Layout{Shards: 3, Format: headed.Plain{}},
		"write ids":        headed.Layout{Shards: 3, Format: headed.Plain{}, WriteIDs: true},
		"copies":           headed.Layout{Shards: 3, Format: headed.Plain{}, Snapshot: headed.Snapshot{Keep: 2}},
		"expiring copies":  headed.Layout{Shards: 3, Format: headed.Plain{}, Snapshot: headed.Snapshot{Keep: 1, Expire: time.Hour}},
		"gaps":             headed.Layout{Shards: 3, Format: headed.Plain{}, Journal: headed.Journal{Gaps: true}},
		"gaps, write ids":  headed.Layout{Shards: 3, Format: headed.Plain{}, WriteIDs: true, Journal: headed.Journal{Gaps: true}},
		"js 3":             headed.Layout{Peer: headed.JS3, Shards: 3, Format: headed.Plain{}},
		"js 3 with copies": headed.Layout{Peer: headed.JS3, Shards: 3, Format: headed.Plain{}, WriteIDs: true, Snapshot: headed.Snapshot{Keep: 2}},
		"js 3 with gaps":   headed.Layout{Peer: headed.JS3, Shards: 3, Format: headed.Plain{}, Journal: headed.Journal{Gaps: true}},
	})
}
