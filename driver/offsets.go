package driver

import (
	"context"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/valid"
)

// Offsets is annals.Store.
func (s *store) Offsets() annals.OffsetStore {
	return offsets{s, s.driver.Offsets()}
}

type offsets struct {
	s *store
	d annals.OffsetStore // nil where Offsets is not claimed
}

func (o offsets) fault(p annals.Progress, limits annals.Limits) error {
	return claimed(o.s.caps.Offsets, valid.Progress("", p, limits))
}

// Load is annals.OffsetStore.
func (o offsets) Load(ctx context.Context, projection string, r annals.SliceRange) ([]annals.Position, error) {
	fault := o.fault(annals.Progress{Projection: projection, Slices: r}, o.s.caps.Limits)
	return ask(ctx, o.s, annals.Call{Op: "load positions"}, false, fault, func(ctx context.Context) ([]annals.Position, error) { return o.d.Load(ctx, projection, r) })
}

// Handled is annals.OffsetStore.
func (o offsets) Handled(ctx context.Context, projection string, ids ...annals.PersistenceID) ([]annals.Offset, error) {
	c := callOf("load offsets", ids)
	return ask(ctx, o.s, c, false, o.faultOf(projection, ids), func(ctx context.Context) ([]annals.Offset, error) {
		if len(ids) == 0 {
			return nil, nil
		}
		return o.d.Handled(ctx, projection, ids...)
	})
}

// Save is annals.OffsetStore. Times are stored in microseconds.
func (o offsets) Save(ctx context.Context, p annals.Progress) error {
	return do(ctx, o.s, annals.Call{Op: "save offsets"}, true, o.fault(p, o.s.caps.Limits), func(ctx context.Context) error {
		p.Through = micros(p.Through)
		p.Offsets = slices.Clone(p.Offsets)
		for i, each := range p.Offsets {
			p.Offsets[i] = micros(each)
		}
		return o.d.Save(ctx, p)
	})
}

// Reset is annals.OffsetStore.
func (o offsets) Reset(ctx context.Context, projection string, r annals.SliceRange, to annals.Offset) error {
	fault := o.fault(annals.Progress{Projection: projection, Slices: r}, o.s.caps.Limits)
	return do(ctx, o.s, annals.Call{Op: "reset offsets"}, true, fault, func(ctx context.Context) error { return o.d.Reset(ctx, projection, r, micros(to)) })
}

// Forget is annals.OffsetStore.
func (o offsets) Forget(ctx context.Context, projection string, ids ...annals.PersistenceID) error {
	c := callOf("forget offsets", ids)
	return do(ctx, o.s, c, true, o.faultOf(projection, ids), func(ctx context.Context) error {
		if len(ids) == 0 {
			return nil
		}
		return o.d.Forget(ctx, projection, ids...)
	})
}

// callOf is the call for ids.
func callOf(op string, ids []annals.PersistenceID) annals.Call {
	c := annals.Call{Op: op}
	if len(ids) == 1 {
		c.ID = ids[0]
	}
	return c
}

// faultOf is what is wrong with a call for ids, of which there may be any number.
func (o offsets) faultOf(projection string, ids []annals.PersistenceID) error {
	asked := annals.Progress{Projection: projection}
	for _, id := range ids {
		asked.Offsets = append(asked.Offsets, annals.Offset{ID: id})
	}
	limits := o.s.caps.Limits
	limits.MaxOffsets = 0
	return o.fault(asked, limits)
}

// micros returns o with its time in microseconds, rounded down.
func micros(o annals.Offset) annals.Offset {
	o.Time = bounded(o.Time).UTC().Truncate(time.Microsecond)
	return o
}

// The times that stores compare with those of what they have are at or between these bounds: a number of microseconds overflows where time.Time does not.
var (
	firstTime = time.Time{}.Add(time.Microsecond)
	lastTime  = time.Date(100_000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// bounded returns t, or the bound that it is beyond. The zero time stays.
func bounded(t time.Time) time.Time {
	switch {
	case t.After(lastTime):
		return lastTime
	case t.Before(firstTime) && !t.IsZero():
		return firstTime
	}
	return t
}
