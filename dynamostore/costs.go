package dynamostore

import (
	"context"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// costs adds up what one call of the store took. The nil costs counts nothing: that is a store without an Observer.
type costs struct {
	mu     sync.Mutex
	result annals.Result
}

type costsKey struct{}

func withCosts(ctx context.Context, c *costs) context.Context {
	return context.WithValue(ctx, costsKey{}, c)
}

func costsOf(ctx context.Context) *costs {
	c, _ := ctx.Value(costsKey{}).(*costs)
	return c
}

// sent counts a request; try > 0 is one sent again.
func (c *costs) sent(try int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Requests++
	if try > 0 {
		c.result.Retries++
	}
}

func (c *costs) read(units *types.ConsumedCapacity, items ...plan.Item) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if units != nil && units.CapacityUnits != nil {
		c.result.ReadUnits += *units.CapacityUnits
	}
	for _, it := range items {
		c.result.Bytes += plan.Size(it)
	}
}

func (c *costs) write(units *types.ConsumedCapacity) {
	if c == nil || units == nil || units.CapacityUnits == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.WriteUnits += *units.CapacityUnits
}

func (c *costs) wrote(ops []plan.Op) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, op := range ops {
		c.result.Bytes += plan.Size(op.Put) + plan.Size(op.Values)
	}
}

func (c *costs) events(n int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Events += n
}
