package projection

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/quote"
)

// TxStore is a store with transactions of its own: *sqlitestore.Store, *pgstore.Store, *dynamostore.Store or *memstore.Store. T is the
// type of the transaction.
type TxStore[T any] interface {
	annals.Store
	ability.Transactor[T]
}

// ExactlyOnce returns a Runner that handles each event once. handle writes to tx, which belongs to a transaction of into, and the Runner
// saves its position in the same transaction: both are committed or neither. The events may be in another store.
//
// handle may be called again for an event after everything that it wrote to tx was undone. So what it does beside tx happens at least once.
func ExactlyOnce[E, T any](name string, src Source[E], into TxStore[T], handle func(ctx context.Context, tx T, e Envelope[E]) error, o Options) (*Runner, error) {
	return exactlyOnce(name, src, into, handle != nil, func(ctx context.Context, tx T, s decoded[E], undo context.CancelCauseFunc) *failure {
		return s.each(ctx, undo, func(ctx context.Context, e Envelope[E]) error { return handle(ctx, tx, e) })
	}, o)
}

// ExactlyOnceGrouped is ExactlyOnce with a handler of at most Options.BatchSize events at a time: those of one entity are in the order of
// their numbers. When handle fails, its events are handled again in smaller groups, until the event that fails is alone.
func ExactlyOnceGrouped[E, T any](name string, src Source[E], into TxStore[T], handle func(ctx context.Context, tx T, es []Envelope[E]) error, o Options) (*Runner, error) {
	return exactlyOnce(name, src, into, handle != nil, func(ctx context.Context, tx T, s decoded[E], undo context.CancelCauseFunc) *failure {
		return s.all(ctx, undo, func(ctx context.Context, es []Envelope[E]) error { return handle(ctx, tx, es) })
	}, o)
}

func exactlyOnce[E, T any](name string, src Source[E], into TxStore[T], handles bool,
	handle func(ctx context.Context, tx T, s decoded[E], undo context.CancelCauseFunc) *failure, o Options) (*Runner, error) {
	return newRunner(name, src.stream(), src.Codec, into, handles, o, func(ctx context.Context, s step) (int, error) {
		events, err := src.decode(s)
		if err != nil {
			return 0, err
		}
		ctx, undo := context.WithCancelCause(ctx)
		defer undo(nil)
		var failed *failure
		err = into.InTx(ctx, func(ctx context.Context, tx T, in annals.Store) error {
			failed = handle(ctx, tx, events, undo)
			switch {
			case failed != nil && ctx.Err() != nil && !errors.Is(failed, errSlow): // the transaction took too long, whatever the handler did
				late := &annals.Error{Op: "handle events", Kind: annals.ErrUnavailable, Err: failed.err}
				failed = nil
				return late
			case failed != nil:
				return failed
			}
			if s.also != nil {
				if err := s.also(ctx, in, len(s.events)); err != nil {
					return err
				}
			}
			p := s.progress
			p.Once = true
			return in.Offsets().Save(ctx, p)
		})
		switch {
		case failed != nil:
			return 0, failed
		case err != nil:
			return 0, err
		}
		return len(s.events), nil
	})
}

// AtLeastOnce returns a Runner that handles each event at least once: again, when the process ends before the position was saved in offsets,
// which is at the latest after Options.BatchSize events. So handle must not mind an event that it has handled before.
func AtLeastOnce[E any](name string, src Source[E], offsets annals.Store, handle func(ctx context.Context, e Envelope[E]) error, o Options) (*Runner, error) {
	return atLeastOnce(name, src, offsets, handle != nil, func(ctx context.Context, s decoded[E]) *failure { return s.each(ctx, nil, handle) }, o)
}

// AtLeastOnceGrouped is AtLeastOnce with a handler of at most Options.BatchSize events at a time: those of one entity are in the order of
// their numbers. When handle fails, its events are handled again in smaller groups, until the event that fails is alone.
func AtLeastOnceGrouped[E any](name string, src Source[E], offsets annals.Store, handle func(ctx context.Context, es []Envelope[E]) error, o Options) (*Runner, error) {
	return atLeastOnce(name, src, offsets, handle != nil, func(ctx context.Context, s decoded[E]) *failure { return s.all(ctx, nil, handle) }, o)
}

func atLeastOnce[E any](name string, src Source[E], offsets annals.Store, handles bool,
	handle func(ctx context.Context, s decoded[E]) *failure, o Options) (*Runner, error) {
	return newRunner(name, src.stream(), src.Codec, offsets, handles, o, func(ctx context.Context, s step) (int, error) {
		events, err := src.decode(s)
		if err != nil {
			return 0, err
		}
		handled := len(s.events)
		failed := handle(ctx, events)
		if failed != nil {
			if handled = max(failed.at, 0); handled == 0 {
				return 0, failed
			}
			s = s.first(handled)
		}
		// What was handled is saved, also when ctx ended while it was handled.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
		defer cancel()
		if s.also != nil {
			fence := annals.Progress{Projection: s.progress.Projection, Slices: s.progress.Slices, Epoch: s.progress.Epoch}
			if err := offsets.Offsets().Save(ctx, fence); err != nil {
				return 0, err
			}
			if err := s.also(ctx, offsets, handled); err != nil {
				return 0, err
			}
		}
		if err := offsets.Offsets().Save(ctx, s.progress); err != nil {
			return 0, err
		}
		if failed != nil {
			return handled, &failure{0, failed.err}
		}
		return handled, nil
	})
}

// saveTimeout is how long a save of what was handled may take after the Runner was told to end.
const saveTimeout = 5 * time.Second

func invalid(name string, err error) error {
	return &annals.Error{Op: fmt.Sprintf("projection %s", quote.Text(name)), Kind: annals.ErrInvalid, Err: err}
}
