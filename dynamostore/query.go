package dynamostore

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
)

type queryView struct{ view }

// Events is annals.Query.
func (v queryView) Events(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	return stream(ctx, v.view, annals.Call{Op: "query events"}, func(ctx context.Context) iter.Seq2[annals.Event, error] {
		if err := f.Validate("query events"); err != nil {
			return failed[annals.Event](err)
		}
		return v.s.offer.Queries.Events(ctx, v.x, f)
	})
}

// States is annals.Query.
func (v queryView) States(ctx context.Context, f annals.Filter) iter.Seq2[annals.State, error] {
	return stream(ctx, v.view, annals.Call{Op: "query states"}, func(ctx context.Context) iter.Seq2[annals.State, error] {
		if err := f.Validate("query states"); err != nil {
			return failed[annals.State](err)
		}
		return v.s.offer.Queries.States(ctx, v.x, f)
	})
}

// IDs is annals.Query.
func (v queryView) IDs(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	return stream(ctx, v.view, annals.Call{Op: "query ids"}, func(ctx context.Context) iter.Seq2[annals.PersistenceID, error] {
		return v.s.offer.Queries.IDs(ctx, v.x, entityType, after)
	})
}

// Newest is annals.Query.
func (v queryView) Newest(ctx context.Context, f annals.Filter) (newest annals.Offset, err error) {
	err = v.call(ctx, annals.Call{Op: "query newest"}, false, func(ctx context.Context) (err error) {
		if err := f.Validate("query newest"); err != nil {
			return err
		}
		newest, err = v.s.offer.Queries.Newest(ctx, v.x, f)
		return err
	})
	return newest, err
}

func failed[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}

// stream runs an operation that yields. Nothing is held while the body of the caller's loop runs: it must not hold up Close.
func stream[T any](ctx context.Context, v view, c annals.Call, read func(ctx context.Context) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		_, ids := any(none).(annals.PersistenceID)
		if err := v.enter(ctx, false); err != nil {
			yield(none, named(c.Op, c.ID, err))
			return
		}
		inside := true // false while the caller's body runs
		defer func() {
			if inside {
				v.leave()
			}
		}()
		ctx, end := v.s.start(ctx, c)
		var failed error
		defer func() { end(failed) }()
		for t, err := range read(ctx) {
			if err != nil {
				failed = named(c.Op, c.ID, err)
				yield(none, failed)
				return
			}
			if !ids {
				costsOf(ctx).events(1)
			}
			v.leave()
			inside = false
			if !yield(t, nil) {
				return
			}
			if failed = named(c.Op, c.ID, v.enter(ctx, false)); failed != nil {
				yield(none, failed)
				return
			}
			inside = true
		}
	}
}
