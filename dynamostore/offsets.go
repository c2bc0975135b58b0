package dynamostore

import (
	"context"

	"github.com/annals-go/annals"
)

type offsets struct{ view }

// Load is annals.OffsetStore.
func (o offsets) Load(ctx context.Context, projection string, r annals.SliceRange) ([]annals.Offset, error) {
	return o.offer.Offsets.Load(ctx, o.x, projection, r)
}

// Handled is annals.OffsetStore.
func (o offsets) Handled(ctx context.Context, projection string, id annals.PersistenceID) (annals.Offset, bool, error) {
	return o.offer.Offsets.Handled(ctx, o.x, projection, id)
}

// Save is annals.OffsetStore.
func (o offsets) Save(ctx context.Context, p annals.Progress) error {
	return o.offer.Offsets.Save(ctx, o.x, p)
}

// Reset is annals.OffsetStore.
func (o offsets) Reset(ctx context.Context, projection string, r annals.SliceRange, to annals.Offset) error {
	return o.offer.Offsets.Reset(ctx, o.x, projection, r, to)
}
