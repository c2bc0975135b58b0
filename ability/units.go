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

// Observable is an optional ability of a Store whose service counts in units what is read.
type Observable interface {
	// Observed returns a store with the same data that tells o, and no other Observer, of its calls, with their units. It can be used until the Store is closed,
	// and is not closed itself.
	Observed(o annals.Observer) annals.Store
}

// EventSizer is an optional ability of a Store that knows how much it stores.
type EventSizer interface {
	// EventsSize is the size of the tables with events. DynamoDB has counted it some hours ago, and PostgreSQL about a second ago; on SQLite
	// their part of the file is read.
	EventsSize(ctx context.Context) (Size, error)
}

// Size is how much a store has, more or less.
type Size struct {
	Items      int64   // or rows; 0 where they were not counted yet
	Bytes      int64   // of the tables, without indexes
	IndexBytes int64   // of the indexes
	ReadUnits  float64 // for reading all of it once, with strong consistency; 0 where there are no units
	Fsyncs     int     // of an append that is alone, which others share that are made at the same time; 0 where the service does not say
}
