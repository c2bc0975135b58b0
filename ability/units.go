package ability

import (
	"context"

	"github.com/annals-go/annals"
)

// UnitCounter is an optional ability of a Store whose service counts in units what is written.
type UnitCounter interface {
	// WriteUnits is how many write units an append of c takes, with those of the indexes. It is computed from the sizes of the items as they are now, and
	// nothing is written: the entity of c may have any events. What is written once for an entity type is left out. ErrInvalid and ErrTooLarge as for Append.
	WriteUnits(ctx context.Context, c annals.Commit) (float64, error)
}

// EventSizer is an optional ability of a Store whose service keeps count of what it stores.
type EventSizer interface {
	// EventsSize is the size of the tables with events, as the service counted it some hours ago. It reads none of their rows.
	EventsSize(ctx context.Context) (Size, error)
}

// Size is how much a store has, more or less.
type Size struct {
	Items, Bytes int64
	ReadUnits    float64 // for reading all of it once, with strong consistency
}
