package driver

import (
	"context"
	"fmt"
	"iter"
	"log/slog"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// stream is the use of a Store by a call that runs the caller's code in between. It is in the context of such a call.
type stream struct {
	s     *Store
	c     annals.Call
	holes *[]ability.Hole // nil unless the call is Check
}

type streamKey struct{}

// Fetch runs fn, which reads from the backend for a loop or for Recover. Close waits for fn, and fn is not run after Close. In a
// call that uses the backend from beginning to end Fetch just runs fn.
func Fetch(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	st, _ := ctx.Value(streamKey{}).(*stream)
	if st == nil {
		return fn(ctx)
	}
	within, err := st.s.begin(ctx, st.c, false)
	if err != nil {
		return err
	}
	defer st.s.leave(false)
	defer func() { err = st.s.finish(within, st.c, err) }()
	return fn(context.WithValue(within, streamKey{}, (*stream)(nil)))
}

// accept notes numbers that a replay or recovery takes for unused although no mark proves it. In a strict Store that is ErrCorrupt.
func accept(ctx context.Context, h ability.Hole) error {
	st, _ := ctx.Value(streamKey{}).(*stream)
	if st == nil {
		return nil
	}
	Count(ctx, annals.Result{Unused: int(h.To - h.From + 1)})
	switch {
	case st.holes != nil:
		*st.holes = append(*st.holes, h)
	case st.s.strict:
		return &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("there are no events %d to %d, and no mark says that they never were", h.From, h.To)}
	default:
		st.s.unused.Do(func() {
			slog.Warn("annals: numbers without events were taken for unused, although no mark proves it; Check finds all of them", "store", st.s.name, "id", st.c.ID, "from", int64(h.From), "to", int64(h.To))
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

// streams makes c a call that uses the backend within Fetch alone.
func (c *call) streams() {
	c.in = context.WithValue(c.ctx, streamKey{}, &stream{c.s, c.Call, c.holes})
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
func each[T any](ctx context.Context, s *Store, c annals.Call, fault error, size func(T) (events, bytes int), read func(ctx context.Context) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		k := s.start(ctx, c)
		var err error
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
	if fault != nil {
		return fault
	}
	if err := c.goesOn(); err != nil {
		return err
	}
	c.streams()
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

func eventSize(e annals.Event) (events, bytes int) { return 1, len(e.Data) + len(e.Metadata.Data) }
func deliverySize(d ability.Delivery) (events, bytes int) {
	for _, e := range d.Events {
		_, size := eventSize(e)
		bytes += size
	}
	return len(d.Events), bytes
}
func stateSize(s annals.State) (events, bytes int)    { return 0, len(s.Data) + len(s.Metadata.Data) }
func snapshotSize(s annals.Snapshot) int              { return len(s.Data) + len(s.Metadata.Data) }
func idSize(annals.PersistenceID) (events, bytes int) { return 0, 0 }
