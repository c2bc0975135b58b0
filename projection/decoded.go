package projection

import (
	"context"
	"errors"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/panics"
)

// decoded is a step with the values of its events.
type decoded[E any] struct {
	step
	source Source[E]
	values []E
}

// decode returns x with the values of its events. Its error is a *failure, or errLater, which says nothing of the events.
func (s Source[E]) decode(x step) (decoded[E], error) {
	d := decoded[E]{x, s, make([]E, len(x.events))}
	failed := x.contain("decode event", func(at *int) (err error) {
		for i, e := range x.events {
			if *at = i; s.States && deleted(e) {
				continue
			}
			if d.values[i], err = s.Codec.Decode(e.Payload); err != nil {
				break
			}
		}
		if err != nil && !errors.As(err, new(*annals.Error)) {
			err = &annals.Error{Op: "decode event", ID: x.events[*at].ID, Kind: annals.ErrCorrupt, Err: err}
		}
		return err
	})
	switch {
	case failed == nil:
		return d, nil
	case errors.Is(failed, annals.ErrUnavailable):
		return d, fmt.Errorf("%w: %w", errLater, failed.err)
	}
	return d, failed
}

// errLater says that events cannot be decoded now, such as when a key cannot be read: whatever OnError would do, they are read again.
var errLater = errors.New("events cannot be decoded now")

func (d decoded[E]) envelope(i int) Envelope[E] {
	e := d.events[i]
	return Envelope[E]{e, d.values[i], d.source.States && deleted(e), d.past.covers(e.Offset())}
}

// each calls handle with each of the events in turn, until one fails. undo ends ctx when a call hangs.
func (d decoded[E]) each(ctx context.Context, undo context.CancelCauseFunc, handle func(ctx context.Context, e Envelope[E]) error) *failure {
	return d.contain("handle event", func(at *int) error {
		return d.health.calls(ctx, undo, len(d.events), func(ctx context.Context, i int) error {
			*at = i
			return handle(ctx, d.envelope(i))
		})
	})
}

// all calls handle with all events at once.
func (d decoded[E]) all(ctx context.Context, undo context.CancelCauseFunc, handle func(ctx context.Context, es []Envelope[E]) error) *failure {
	es := make([]Envelope[E], len(d.events))
	for i := range es {
		es[i] = d.envelope(i)
	}
	return d.contain("handle event", func(at *int) error {
		if len(es) > 1 {
			*at = unknownEvent
		}
		return d.health.calls(ctx, undo, 1, func(ctx context.Context, _ int) error { return handle(ctx, es) })
	})
}

// contain calls fn on a goroutine of its own, with its panics contained, unless s has no events. fn sets at to the event that it handles.
func (s step) contain(op string, fn func(at *int) error) *failure {
	if len(s.events) == 0 {
		return nil
	}
	at := 0
	err := panics.Contain("", "", func() error { return fn(&at) })
	if err == nil {
		return nil
	}
	if p, ok := err.(*annals.Error); ok && p.Kind == annals.ErrPanic && p.Op == "" { // of Contain
		p.Op, p.ID = op, s.events[max(at, 0)].ID
	}
	return &failure{at, err}
}

// failure is the error of a handler or a codec.
type failure struct {
	at  int // which of the events, or unknownEvent
	err error
}

// unknownEvent is the place of a failure of several events.
const unknownEvent = -1

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }
