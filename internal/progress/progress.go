// Package progress says how far projections have come with one entity, for those who delete its events.
package progress

import (
	"context"
	"errors"
	"slices"

	"github.com/annals-go/annals"
)

// Handled is the number up to which all of projections have handled the events of id, and the one that is furthest behind. It is
// annals.MaxSeqNr where there are no projections.
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

// Fault is what is wrong with the names of projections.
func Fault(projections []string) error {
	if slices.Contains(projections, "") {
		return errors.New("a projection without a name")
	}
	return nil
}
