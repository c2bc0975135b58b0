package ability

import (
	"context"

	"github.com/annals-go/annals"
)

// UnitCounter is an optional ability of a Store whose service counts in units what is written.
type UnitCounter interface {
	// WriteUnits is how many write units it takes what write writes to s, with those of the indexes: commits, snapshots, states and positions, but no other
	// items of a change handler. It is computed from the sizes of the items as they are now, and nothing is written: s is a store without contents, so each entity
	// may have any. It is used within write only. What is written once for an entity type is left out. The errors are those of write.
	WriteUnits(ctx context.Context, write func(s annals.Store) error) (float64, error)
}

// Observable is an optional ability of a Store whose service counts in units what is read.
type Observable interface {
	// Observed returns a store with the same data that tells o, and no other Observer, of its calls, with their units. It can be used until the Store is closed,
	// and is not closed itself.
	Observed(o annals.Observer) annals.Store
}

// Sizer is an optional ability of a Store that knows how much it stores.
type Sizer interface {
	// Sizes are the sizes of the tables, the one with the events first if there is one. DynamoDB has counted them some hours ago, and PostgreSQL about a second ago; on
	// SQLite their part of the file is read.
	Sizes(ctx context.Context) ([]Size, error)
}

// Size is how much a table has, more or less.
type Size struct {
	Table      string
	Items      int64   // or rows; 0 where they were not counted yet
	Bytes      int64   // of the table, without indexes
	IndexBytes int64   // of the indexes
	ReadUnits  float64 // for reading all of it once, with strong consistency; 0 where there are no units
	Fsyncs     int     // of an append to it that is alone, which others share that are made at the same time; 0 where the service does not say, or it has no events
}
