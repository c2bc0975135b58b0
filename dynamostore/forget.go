package dynamostore

import (
	"context"

	"github.com/annals-go/annals"
)

// Forget is annals.Forgetter.
func (v view) Forget(ctx context.Context, f annals.Forgetting) (bool, error) {
	return v.offer.Forget(ctx, v.x, f)
}
