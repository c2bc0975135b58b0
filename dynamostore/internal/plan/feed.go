package plan

import (
	"context"
	"iter"
	"time"

	"github.com/annals-go/annals"
)

// Feed says how the stream of a table's new images tells of events.
type Feed struct {
	Table string
	// Events returns the events in the new image of an item, in the order of their numbers; nil for items that tell of none. created says
	// that the record is of an item that did not exist before.
	Events func(image Item, created bool) ([]annals.Event, error)
	// Owner returns the id of the entity of an image for which Events returns an error.
	Owner func(image Item) annals.PersistenceID
	// Scan yields every id that has had events before the call, in no order, and at least once. It reads the ids in one part of the table;
	// an id is in one part only. An error ends the sequence.
	Scan func(ctx context.Context, x Executor, p Part) iter.Seq2[Found, error]
	// Counts says that Found.Last is how many events there were. It is another number than the last one where numbers were left unused.
	Counts bool
}

// Found is what a scan found out about an entity.
type Found struct {
	ID   annals.PersistenceID
	Last annals.SeqNr // the number of the last event, deleted or not; 0: the scan does not tell
	Time time.Time    // of that event; zero: the scan does not tell, and an entity never begins again with number 1
}
