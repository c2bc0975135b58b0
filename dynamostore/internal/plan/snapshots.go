package plan

import (
	"cmp"
	"time"

	"github.com/annals-go/annals"
)

// Numbers returns the bounds of the numbers that c chooses, which are at least least. It is false when no snapshot can fit c: the service
// refuses a query for no values.
func Numbers(c annals.SnapshotCriteria, least annals.SeqNr) (from, to annals.SeqNr, some bool) {
	from, to = max(c.MinSeqNr, least), cmp.Or(c.MaxSeqNr, annals.MaxSeqNr)
	return from, to, from <= to && (c.MaxTime.IsZero() || !c.MaxTime.Before(c.MinTime))
}

// InTime reports whether c chooses snapshots of the time at. Tables have times in units; 0 is that of c.
func InTime(c annals.SnapshotCriteria, at time.Time, unit time.Duration) bool {
	return (c.MinTime.IsZero() || !at.Before(c.MinTime.Truncate(unit))) && (c.MaxTime.IsZero() || !at.After(c.MaxTime.Truncate(unit)))
}
