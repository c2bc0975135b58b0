package query

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/annals-go/annals"
)

// Events yields the events that fit f: those that are there, then new ones as they come. It ends with ctx, after f.Limit events if that is
// not zero, or as Options.Current says. The order is that of Batch.Events. An error comes once, last, and is one that Feed.Next returns;
// ctx's own error, too. f.Behind must be zero (ErrInvalid).
//
// The query begins after f.After. Where Capabilities.Lateness is zero, the Offset of the last event that was yielded is where to go on.
// On other stores that would skip events that become visible late: there, use a Feed, and go on from a Batch.Through.
func Events(ctx context.Context, s annals.Store, f annals.Filter, o Options) iter.Seq2[annals.Event, error] {
	return follow(ctx, s, f, o, NewFeed)
}

// follow yields the items of the feed that newFeed returns, which begins after f.After, and ends after f.Limit items.
func follow[T any](ctx context.Context, s annals.Store, f annals.Filter, o Options,
	newFeed func(annals.Store, annals.Filter, annals.Position, Options) (*Feed[T], error)) iter.Seq2[T, error] {
	from, limit := bounds(&f)
	return func(yield func(T, error) bool) {
		ctx, end := context.WithCancel(ctx) // ends the watch
		defer end()
		feed, err := newFeed(s, f, from, o)
		for n := 0; err == nil; {
			var b Batch[T]
			b, err = feed.Next(ctx, pageSize)
			for _, item := range b.Items {
				if n++; !yield(item, nil) || n == limit {
					return
				}
			}
		}
		if !errors.Is(err, io.EOF) {
			var none T
			yield(none, err)
		}
	}
}

// bounds takes After and Limit out of f. A negative Limit stays: it is a fault of the feed.
func bounds(f *annals.Filter) (from annals.Position, limit int) {
	from, limit = annals.Position{Through: f.After}, f.Limit
	f.After, f.Limit = annals.Offset{}, min(f.Limit, 0)
	return from, limit
}
