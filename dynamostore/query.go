package dynamostore

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
)

type query struct{ view }

// Events is annals.Query.
func (q query) Events(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	return q.offer.Queries.Events(ctx, q.x, f)
}

// States is annals.Query.
func (q query) States(ctx context.Context, f annals.Filter) iter.Seq2[annals.State, error] {
	return q.offer.Queries.States(ctx, q.x, f)
}

// IDs is annals.Query.
func (q query) IDs(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	return q.offer.Queries.IDs(ctx, q.x, entityType, after)
}

// Newest is annals.Query.
func (q query) Newest(ctx context.Context, f annals.Filter) (annals.Offset, error) {
	return q.offer.Queries.Newest(ctx, q.x, f)
}
