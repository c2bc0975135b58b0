package projection

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/panics"
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
	if handle == nil {
		return nil, invalid(name, errNoHandler)
	}
	return exactlyOnce(name, src, into, func(ctx context.Context, tx T, es []Envelope[E], call call) error {
		return each(es, func(e Envelope[E]) error {
			return call(ctx, func(ctx context.Context) error { return handle(ctx, tx, e) })
		})
	}, o)
}

// ExactlyOnceGrouped is ExactlyOnce with a handler of at most Options.BatchSize events at a time: those of one entity are in the order of
// their numbers. When handle fails, its events are handled again in smaller groups, until the event that fails is alone.
func ExactlyOnceGrouped[E, T any](name string, src Source[E], into TxStore[T], handle func(ctx context.Context, tx T, es []Envelope[E]) error, o Options) (*Runner, error) {
	if handle == nil {
		return nil, invalid(name, errNoHandler)
	}
	return exactlyOnce(name, src, into, func(ctx context.Context, tx T, es []Envelope[E], call call) error {
		return call(ctx, func(ctx context.Context) error { return handle(ctx, tx, es) })
	}, o)
}

func exactlyOnce[E, T any](name string, src Source[E], into TxStore[T], handle func(ctx context.Context, tx T, es []Envelope[E], call call) error, o Options) (*Runner, error) {
	if into == nil {
		return nil, invalid(name, errNoHandler)
	}
	return newRunner(name, src.stream(), src.Codec != nil, into, o, func(ctx context.Context, s step) (int, error) {
		es, err := src.decode(s.events)
		if err != nil {
			return 0, err
		}
		ctx, undo := context.WithCancelCause(ctx)
		defer undo(nil)
		var failed *failure
		err = into.InTx(ctx, func(ctx context.Context, tx T, in annals.Store) error {
			failed = contain(es, func() error { return handle(ctx, tx, es, s.calls(undo)) })
			switch {
			case failed != nil && ctx.Err() != nil && !errors.Is(failed, errSlow): // the transaction took too long, whatever the handler did
				late := &annals.Error{Op: "handle events", Kind: annals.ErrUnavailable, Err: failed.err}
				failed = nil
				return late
			case failed != nil:
				return failed
			}
			if s.also != nil {
				if err := s.also(ctx, in, len(es)); err != nil {
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
		return len(es), nil
	})
}

// AtLeastOnce returns a Runner that handles each event at least once: again, when the process ends before the position was saved in offsets,
// which is at the latest after Options.BatchSize events. So handle must not mind an event that it has handled before.
func AtLeastOnce[E any](name string, src Source[E], offsets annals.Store, handle func(ctx context.Context, e Envelope[E]) error, o Options) (*Runner, error) {
	if handle == nil {
		return nil, invalid(name, errNoHandler)
	}
	return atLeastOnce(name, src, offsets, func(ctx context.Context, es []Envelope[E], call call) error {
		return each(es, func(e Envelope[E]) error {
			return call(ctx, func(ctx context.Context) error { return handle(ctx, e) })
		})
	}, o)
}

// AtLeastOnceGrouped is AtLeastOnce with a handler of at most Options.BatchSize events at a time: those of one entity are in the order of
// their numbers. When handle fails, its events are handled again in smaller groups, until the event that fails is alone.
func AtLeastOnceGrouped[E any](name string, src Source[E], offsets annals.Store, handle func(ctx context.Context, es []Envelope[E]) error, o Options) (*Runner, error) {
	if handle == nil {
		return nil, invalid(name, errNoHandler)
	}
	return atLeastOnce(name, src, offsets, func(ctx context.Context, es []Envelope[E], call call) error {
		return call(ctx, func(ctx context.Context) error { return handle(ctx, es) })
	}, o)
}

func atLeastOnce[E any](name string, src Source[E], offsets annals.Store, handle func(ctx context.Context, es []Envelope[E], call call) error, o Options) (*Runner, error) {
	if offsets == nil {
		return nil, invalid(name, errNoHandler)
	}
	return newRunner(name, src.stream(), src.Codec != nil, offsets, o, func(ctx context.Context, s step) (int, error) {
		es, err := src.decode(s.events)
		if err != nil {
			return 0, err
		}
		handled := len(es)
		failed := contain(es, func() error { return handle(ctx, es, s.calls(func(error) {})) })
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

// failure is the error of a handler or a codec.
type failure struct {
	at  int // which of the events, or unknownEvent
	err error
}

// unknownEvent is the place of a failure of several events.
const unknownEvent = -1

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// each calls handle for each of es. Its error is a *failure.
func each[E any](es []Envelope[E], handle func(e Envelope[E]) error) error {
	return containEach("handle event", es, func(e Envelope[E]) annals.PersistenceID { return e.ID }, func(i int) error { return handle(es[i]) })
}

// containEach calls fn with the number of each of es in turn until one fails, all on one goroutine, with its panics contained. Its error is a
// *failure.
func containEach[T any](op string, es []T, id func(T) annals.PersistenceID, fn func(i int) error) error {
	at := 0
	err := panics.Contain("", "", func() error {
		for ; at < len(es); at++ {
			if err := fn(at); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		return nil
	}
	if p, ok := err.(*annals.Error); ok && p.Kind == annals.ErrPanic && p.Op == "" {
		p.Op, p.ID = op, id(es[at])
	}
	return &failure{at, err}
}

// contain runs the handler of es, with its panics contained.
func contain[E any](es []Envelope[E], handle func() error) *failure {
	if len(es) == 0 {
		return nil
	}
	err := panics.Contain("handle event", es[0].ID, handle)
	if err == nil {
		return nil
	}
	if f, ok := err.(*failure); ok { //nolint:errorlint // of each, which does not wrap it
		return f
	}
	if len(es) == 1 {
		return &failure{0, err}
	}
	return &failure{unknownEvent, err}
}

var errNoHandler = errors.New("a store or the handler is missing")

func invalid(name string, err error) error {
	return &annals.Error{Op: fmt.Sprintf("projection %s", quote.Text(name)), Kind: annals.ErrInvalid, Err: err}
}
