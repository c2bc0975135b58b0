package query

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/valid"
)

// Events yields the events that fit f: those that are there, then new ones as they come. It ends with ctx, after f.Limit events if that is
// not zero, or as Options.Current says. The order is that of Batch.Events. An error comes once, last, and is one that Feed.Next returns;
// ctx's own error, too. f.Behind must be zero (ErrInvalid).
//
// The query begins after f.After. Where Capabilities.Lateness is zero, the Offset of the last event that was yielded is where to go on.
// On other stores that would skip events that become visible late: there, use a Feed, and go on from a Batch.Through.
func Events(ctx context.Context, s annals.Store, f annals.Filter, o Options) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		from, limit, err := begin("follow events", &f)
		if err != nil {
			yield(annals.Event{}, err)
			return
		}
		feed, err := NewFeed(s, f, from, o)
		if err != nil {
			yield(annals.Event{}, err)
			return
		}
		feed.each(ctx, limit, yield)
	}
}

// begin takes After and Limit out of f. A wrong f is ErrInvalid.
func begin(op string, f *annals.Filter) (from annals.Position, limit int, err error) {
	from, limit, err = annals.Position{Through: f.After}, f.Limit, valid.Filter(op, *f)
	f.After, f.Limit = annals.Offset{}, 0
	return from, limit, err
}

// each yields what Next returns; limit 0 is no limit.
func (f *Feed[T]) each(ctx context.Context, limit int, yield func(T, error) bool) {
	ctx, end := context.WithCancel(ctx) // ends the watch
	defer end()
	for n := 0; ; {
		b, err := f.Next(ctx, pageSize)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		for _, item := range b.Items {
			if n++; !yield(item, nil) || n == limit {
				return
			}
		}
	}
}
