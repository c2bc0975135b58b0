package dynamostore

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

var (
	_ annals.Store           = (*Store)(nil)
	_ annals.Recoverer       = (*Store)(nil)
	_ annals.Skipper         = (*Store)(nil)
	_ annals.StateSkipper    = (*Store)(nil)
	_ annals.StateFinder     = (*Store)(nil)
	_ annals.Forgetter       = (*Store)(nil)
	_ annals.HealthChecker   = (*Store)(nil)
	_ annals.Transactor[*Tx] = (*Store)(nil)
)

// Recover is annals.Recoverer.
func (s *Store) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	return driver.Recover(ctx, s.Store, id, snapshot, event)
}

// SkipTo is annals.Skipper. It is ErrUnsupported when the layout has no journal.
func (s *Store) SkipTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	return driver.SkipTo(ctx, s.Store, id, n)
}

// SkipStateTo is annals.StateSkipper. It is ErrUnsupported when the layout keeps no tombstones of states: then there is no place
// for a revision without a state.
func (s *Store) SkipStateTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	return driver.SkipStateTo(ctx, s.Store, id, n)
}

// FindStates yields the states of a type whose additional column has the value, in no particular order, without tombstones. They are
// found through an index: a column without an index, and the value nil, are ErrUnsupported. Each state is then read with strong
// consistency, so it has the value. A state written within the last second or so may be missing.
func (s *Store) FindStates(ctx context.Context, entityType, column string, value any) iter.Seq2[annals.State, error] {
	return driver.FindStates(ctx, s.Store, entityType, column, value)
}

// Forget is annals.Forgetter. It is ErrUnsupported where Capabilities do not claim Forgets: the tables of the layout do not say when
// something was deleted.
func (s *Store) Forget(ctx context.Context, f annals.Forgetting) (bool, error) {
	return driver.Forget(ctx, s.Store, f)
}

// CheckHealth is annals.HealthChecker. It reads an item that does not exist, and tries to write it on a condition that never holds:
// two requests to the layout's first table, one read unit and one write unit.
func (s *Store) CheckHealth(ctx context.Context) error { return driver.CheckHealth(ctx, s.Store) }
