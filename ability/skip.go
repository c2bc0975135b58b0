package ability

import (
	"context"

	"github.com/annals-go/annals"
)

// Skipper is an optional ability of a Store. Importers use it for an entity that starts after numbers that were deleted
// elsewhere. Package cleanup takes a number of each entity that it deletes, so that a writer that still knows the entity gets ErrConflict.
type Skipper interface {
	// SkipTo makes n the last number of an entity whose last number is after, as if after+1 … n had been written and then everything deleted.
	// It deletes events before the last one first, and in its last step the last one together with the change of the number: when it
	// ends early, the entity has the number after and a last event, or it has the number n. ErrConflict when the entity has another last
	// number; then earlier events may be deleted. It may be repeated.
	SkipTo(ctx context.Context, id annals.PersistenceID, after, n annals.SeqNr) error
}

// StateSkipper is an optional ability of a Store, for importers: a state continues with the revision that it had
// elsewhere.
type StateSkipper interface {
	// SkipStateTo makes the state's last revision n, as if 1 … n had been written and the last of them had been a delete. ErrConflict when
	// the state has been written already. To copy a state of revision n, skip to n-1 and Put it.
	SkipStateTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error
}
