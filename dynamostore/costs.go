package dynamostore

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// capacity is what requests ask the service to return.
func (e *engine) capacity() types.ReturnConsumedCapacity {
	if e.observed {
		return types.ReturnConsumedCapacityTotal
	}
	return types.ReturnConsumedCapacityNone
}

// countRequest counts a request for the Observer; a request with try > 0 is sent again.
func countRequest(ctx context.Context, try int) {
	driver.Count(ctx, annals.Result{Requests: 1, Retries: min(try, 1)})
}

func countRead(ctx context.Context, c *types.ConsumedCapacity) {
	if c != nil && c.CapacityUnits != nil {
		driver.Count(ctx, annals.Result{ReadUnits: *c.CapacityUnits})
	}
}

func countWrite(ctx context.Context, c *types.ConsumedCapacity) {
	if c != nil && c.CapacityUnits != nil {
		driver.Count(ctx, annals.Result{WriteUnits: *c.CapacityUnits})
	}
}
