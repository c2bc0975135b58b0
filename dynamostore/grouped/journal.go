package grouped

import (
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// journal is the journal table.
type journal struct {
	table, name string
	index       string // of ids; "" is none
	shards      int64
	old         bool // write the old format
	ahead       int
	x           plan.Executor // runs the requests; set by plan.Offer.On
}
