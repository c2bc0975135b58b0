// Package progress finds out which events of an entity the projections have handled, before the events are deleted.
package progress

import (
	"context"
	"errors"
	"slices"

	"github.com/annals-go/annals"
)

// Handled returns the number n ≤ to up to which all projections have handled the events of id, and the name of the projection that has handled
// the fewest. Without projections n is to.
func Handled(ctx context.Context, s annals.Store, projections []string, id annals.PersistenceID, to annals.SeqNr) (n annals.SeqNr, behind string, err error) {
	n = to
	for _, name := range projections {
		handled, err := s.Offsets().Handled(ctx, name, id)
		if err != nil {
			return 0, name, err
		}
		last, err := lastCovered(ctx, s, id, handled[0], n)
		if err != nil {
			return 0, name, err
		}
		// The position has passed the events of a parked entity, which wait to be handled.
		from, err := parkedFrom(ctx, s, name, id)
		if err != nil {
			return 0, name, err
		}
		if from > 0 {
			last = min(last, from-1)
		}
		if last < n {
			n, behind = last, name
		}
	}
	return n, behind, nil
}

// lastCovered returns the number of the last event of id up to to that o covers, or to when o covers all that are there. When o is not an
// offset of the entity, the times of its events tell.
func lastCovered(ctx context.Context, s annals.Store, id annals.PersistenceID, o annals.Offset, to annals.SeqNr) (annals.SeqNr, error) {
	if o.ID == id || o.Compare(annals.Offset{}) == 0 {
		return min(o.SeqNr, to), nil
	}
	for e, err := range s.Journal().Replay(ctx, id, 1, to) {
		if err != nil {
			return 0, err
		}
		if !o.Covers(e.Offset()) {
			return e.SeqNr - 1, nil
		}
	}
	return to, nil
}

// Fault returns what is wrong with the names of projections, or nil.
func Fault(projections []string) error {
	if slices.Contains(projections, "") {
		return errors.New("a projection without a name")
	}
	return nil
}
