package storetest

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
)

// lateness is the claim of late.
const lateness = 20 * time.Millisecond

// late is a store in which events and states of half of the slices become visible later than those of the others.
type late struct {
	*memstore.Store
	watermark func(now time.Time) time.Time // nil is right
}

func (s late) Capabilities() annals.Capabilities {
	c := s.Store.Capabilities()
	c.Lateness = lateness
	return c
}

func (s late) Query() annals.Query { return lateQuery{s.Store.Query(), s.watermark} }

type lateQuery struct {
	annals.Query
	watermark func(now time.Time) time.Time
}

// visible are the values of seq that can be seen already, at most limit.
func visible[T any](seq iter.Seq2[T, error], limit int, offset func(T) annals.Offset) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		n, now := 0, time.Now()
		for v, err := range seq {
			o := offset(v)
			if err == nil && o.ID.Slice()%2 == 1 && o.Time.After(now.Add(-lateness/2)) {
				continue
			}
			if n++; !yield(v, err) || n == limit {
				return
			}
		}
	}
}

func (q lateQuery) Events(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	limit := f.Limit
	f.Limit = min(limit, 0)
	return visible(q.Query.Events(ctx, f), limit, annals.Event.Offset)
}

func (q lateQuery) States(ctx context.Context, f annals.Filter) iter.Seq2[annals.State, error] {
	limit := f.Limit
	f.Limit = min(limit, 0)
	return visible(q.Query.States(ctx, f), limit, annals.State.Offset)
}

func (q lateQuery) Watermark(ctx context.Context) (time.Time, error) {
	if _, err := q.Query.Watermark(ctx); err != nil {
		return time.Time{}, err
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	if q.watermark != nil {
		return q.watermark(now), nil
	}
	return now.Add(-lateness), nil
}

// The suite accepts a store in which events appear late.
func TestLateStore(t *testing.T) {
	t.Parallel()
	Run(t, Config{Short: true, Open: func(testing.TB) annals.Store { return late{Store: memstore.New()} }})
}

// disordered claims that the events of late become visible in order.
type disordered struct{ late }

func (s disordered) Capabilities() annals.Capabilities { return s.Store.Capabilities() }
func (s disordered) Query() annals.Query               { return disorderedQuery{s.late.Query(), s.Store.Query()} }

type disorderedQuery struct {
	annals.Query
	ordered annals.Query
}

func (q disorderedQuery) Watermark(ctx context.Context) (time.Time, error) {
	return q.ordered.Watermark(ctx)
}

// stopsShort has its watermark at the newest event, not after it.
func stopsShort(_ context.Context, c *faulty.Call, run func() error) error {
	err := run()
	if c.Op == "query watermark" {
		at := c.Result.(*time.Time)
		*at = at.Add(-time.Microsecond)
	}
	return err
}
