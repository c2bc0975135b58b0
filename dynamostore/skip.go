package dynamostore

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// SkipTo is annals.Skipper.
func (v view) SkipTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	return v.skip(ctx, v.offer.SkipTo, id, n)
}

// SkipStateTo is annals.StateSkipper. No change handler is called, and columns stay empty.
func (v view) SkipStateTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	return v.skip(ctx, v.s.typeOf(id).stored.SkipTo, id, n)
}

func (v view) skip(ctx context.Context, skip plan.Skip, id annals.PersistenceID, n annals.SeqNr) error {
	if skip == nil {
		return errUnsupported
	}
	return skip(ctx, v.x, id, n)
}
