// Package progress finds out which events of an entity the projections have handled, before the events are deleted.
package progress

import (
	"context"
	"errors"
	"slices"

	"github.com/annals-go/annals"
)

// Handled returns the number n up to which all projections have handled the events of id, and the name of the projection that has handled the
// fewest. Without projections n is annals.MaxSeqNr.
func Handled(ctx context.Context, s annals.OffsetStore, projections []string, id annals.PersistenceID) (n annals.SeqNr, behind string, err error) {
	n = annals.MaxSeqNr
	for _, name := range projections {
		newest, _, err := s.Handled(ctx, name, id)
		if err != nil {
			return 0, name, err
		}
		if newest.SeqNr < n {
			n, behind = newest.SeqNr, name
		}
	}
	return n, behind, nil
}

// Fault returns what is wrong with the names of projections, or nil.
func Fault(projections []string) error {
	if slices.Contains(projections, "") {
		return errors.New("a projection without a name")
	}
	return nil
}
