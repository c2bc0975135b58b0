package dynamostore

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// SkipTo is annals.Skipper; ErrUnsupported where the layout does not offer it.
func (s *Store) SkipTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	return s.skip(ctx, "skip", s.offer.SkipTo, id, n)
}

// SkipStateTo is annals.StateSkipper; ErrUnsupported where the layout does not offer it: a table that keeps no tombstones cannot
// keep a revision without a state. No change handler is called, and columns stay empty.
func (s *Store) SkipStateTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	return s.skip(ctx, "skip state", s.typeOf(id).stored.SkipTo, id, n)
}

func (s *Store) skip(ctx context.Context, op string, skip plan.Skip, id annals.PersistenceID, n annals.SeqNr) error {
	if skip == nil {
		return &annals.Error{Op: op, ID: id, Kind: annals.ErrUnsupported}
	}
	if err := id.ValidateSkip(op, n, s.view().limits()); err != nil {
		return err
	}
	return s.view().call(ctx, annals.Call{Op: op, ID: id}, true, func(ctx context.Context) error { return skip(ctx, s.engine, id, n) })
}
