package driver

import (
	"context"
	"fmt"
	"iter"
	"log/slog"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// streamKey is the key of the *call in the context of a call that runs the caller's code in between.
type streamKey struct{}

// Fetch runs fn, which reads from the backend for a loop or for Recover. Close waits for fn, and fn is not run after Close. In a
// call that uses the backend from beginning to end Fetch just runs fn.
func Fetch(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	c, _ := ctx.Value(streamKey{}).(*call)
	if c == nil {
		return fn(ctx)
	}
	within, end, err := c.s.begin(ctx, false)
	if err != nil {
		return err
	}
	defer c.s.leave(false)
	if end != nil {
		defer func() { err = end(err) }()
	}
	return fn(context.WithValue(within, streamKey{}, (*call)(nil)))
}

// accept notes numbers that a replay or recovery takes for unused although no mark proves it. In a strict Store that is ErrCorrupt.
func accept(ctx context.Context, from, to annals.SeqNr) error {
	c, _ := ctx.Value(streamKey{}).(*call)
	if c == nil {
		return nil
	}
	Count(ctx, annals.Result{Unused: int(to - from + 1)})
	switch {
	case c.holes != nil:
		*c.holes = append(*c.holes, &ability.Damage{Code: ability.Hole, From: from, To: to, Err: fmt.Errorf("there are no events %d to %d", from, to)})
	case c.s.strict:
		return &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("there are no events %d to %d, and no mark says that they never were", from, to)}
	default:
		c.s.unused.Do(func() {
			slog.Warn("annals: numbers without events were taken for unused, although no mark proves it; package verify finds all of them", "store", c.s.name, "id", c.ID, "from", int64(from), "to", int64(to))
		})
	}
	return nil
}

// Pages yields the values of one page after the other. It calls fetch within Fetch to read the next page; more is false with the last one.
// fetch may reuse the memory of the page before. The sequence can be used once.
func Pages[T any](ctx context.Context, fetch func(ctx context.Context) (page []T, more bool, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for more := true; more; {
			var page []T
			err := Fetch(ctx, func(ctx context.Context) (err error) {
				page, more, err = fetch(ctx)
				return err
			})
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, v := range page {
				if !yield(v, nil) {
					return
				}
			}
		}
	}
}

// streams makes c a call that uses the backend within Fetch alone. It refuses the call when fault is not nil.
func (c *call) streams(fault error) error {
	if fault != nil {
		return fault
	}
	c.in = context.WithValue(c.ctx, streamKey{}, c)
	return c.goesOn()
}

// goesOn reports why the body of a loop is not to run again; nil when it is.
func (c *call) goesOn() error {
	if err := c.s.ended(c.ctx); err != nil {
		return err
	}
	if c.s.tx == nil && c.s.gate.shut.Load() {
		return errClosed
	}
	return nil
}

// each is the loop of a call that yields what read does. A fault of the arguments ends it at once. size is what a value counts for.
func each[T any](ctx context.Context, s *store, c annals.Call, fault error, size func(T) (events, bytes int), read func(ctx context.Context) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var err error
		k := s.start(ctx, c, &err)
		defer func() { k.end(&err) }()
		if err = loop(&k, fault, size, read, yield); err != nil {
			err = s.named(k.Call, err)
			var none T
			yield(none, err)
		}
	}
}

// loop runs the caller's body until it leaves, there is no more, or an error ends it.
func loop[T any](c *call, fault error, size func(T) (events, bytes int), read func(ctx context.Context) iter.Seq2[T, error], yield func(T, error) bool) error {
	if err := c.streams(fault); err != nil {
		return err
	}
	for v, err := range read(c.in) {
		if err != nil {
			return err
		}
		if c.spent != nil {
			c.transferred(size(v))
		}
		more := false
		if c.caller(func() { more = yield(v, nil) }); !more {
			return nil
		}
		if err := c.goesOn(); err != nil {
			return err
		}
	}
	return nil
}

// bytes is what a payload and its metadata count for.
func bytes(p, metadata *annals.Payload) int { return len(p.Data) + len(metadata.Data) }

func eventSize(e annals.Event) (events, size int)       { return 1, bytes(&e.Payload, &e.Metadata) }
func stateSize(s annals.State) (events, size int)       { return 0, bytes(&s.Payload, &s.Metadata) }
func snapshotSize(s annals.Snapshot) (events, size int) { return 0, bytes(&s.Payload, &s.Metadata) }
func idSize(annals.PersistenceID) (events, size int)    { return 0, 0 }
func deliverySize(d ability.Delivery) (events, size int) {
	for i := range d.Events {
		size += bytes(&d.Events[i].Payload, &d.Events[i].Metadata)
	}
	return len(d.Events), size
}
