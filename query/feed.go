package query

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/claims"
)

// Feed follows the events that fit a filter, from a position on: each once, and those of one entity in the order of their numbers. Only
// imported events of one entity whose NewEvent.Time goes back may come in the order of their times.
//
// The methods of a Feed are called by one goroutine at a time. A Feed is not closed: nothing runs between two calls, and what watches the
// store ends with the ctx of the call of Next that began it. So give all calls a ctx that lives as long as the Feed.
type Feed struct {
	follower[annals.Event]
}

// Batch is what Next returns.
type Batch struct {
	// Events were not in an earlier Batch. Those of one entity are in the order of their numbers; events of different entities may be in
	// another order than that of their Offset.
	Events []annals.Event
	// Through says that every event of the filter at or before it is in this Batch or an earlier one, or was handled before the position.
	// It never goes back. Only an event that becomes visible later than the watermark of the store promises can come in a later Batch, at or before
	// the Through of an earlier one: see Options.Audit.
	Through annals.Offset
	// CaughtUp says that nothing more was visible when the store was read.
	CaughtUp bool
}

// NewFeed returns a Feed of the events of f after the position from: after from.Through, and without those that from.Offsets cover. Its
// slices are those that are in f.Slices and in from.Slices. It reads nothing yet. f.After, f.Limit and f.Behind must be zero (ErrInvalid);
// a store without event queries, or without queries by tag when f has one, is ErrUnsupported.
func NewFeed(s annals.Store, f annals.Filter, from annals.Position, o Options) (*Feed, error) {
	const op = "follow events"
	feed := &Feed{}
	if err := feed.init(op, s, f, from, o, claims.EventFeed); err != nil {
		return nil, err
	}
	feed.read, feed.offset = s.Query().Events, annals.Event.Offset
	feed.size = func(e annals.Event) int { return len(e.Data) + len(e.Metadata.Data) }
	feed.newest, feed.missing = s.Query().Newest, feed.before
	return feed, nil
}

// Next returns the next events, at most max; max below 1 counts as 1. It waits until there are some. Without events it returns when the
// feed has caught up for the first time since the last Batch with more to come, and from then on after Options.Poll if Through has moved.
// With Options.Current it is io.EOF after everything that was visible when the first Next began.
//
// A read that fails is repeated until it works, with OnRetry. The errors are that of ctx, ErrUnsupported and ErrClosed of the store, and its
// ErrInvalid before the first read that works: from then on it is repeated, too, because what the feed asks for is right, and a server may
// refuse it for a while. After an error Next may be called again, and goes on without a loss.
func (f *Feed) Next(ctx context.Context, max int) (Batch, error) {
	if max < 1 {
		max = 1
	}
	b, err := f.next(ctx, max)
	return Batch{b.items, b.through, b.caughtUp}, err
}
