package plan

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
)

// Feed says how the stream of a table's new images tells of events.
type Feed struct {
	Table string
	// Events returns the events in the new image of an item, in the order of their numbers; nil for items that tell of none. created says
	// that the record is of an item that did not exist before.
	Events func(image Item, created bool) ([]annals.Event, error)
	// IDs yields every id that has had events before the call, in no order, and at least once. It reads the ids in one part of the table;
	// an id is in one part only. An error ends the sequence.
	IDs func(ctx context.Context, x Executor, p Part) iter.Seq2[annals.PersistenceID, error]
}
