package driver

import (
	"context"
	"slices"
	"time"

	"github.com/annals-go/annals"
)

// Offsets is annals.Store.
func (s *Store) Offsets() annals.OffsetStore {
	if !s.caps.Offsets {
		return annals.Unsupported{}.Offsets()
	}
	return offsets{s, s.driver.Offsets()}
}

type offsets struct {
	s *Store
	d annals.OffsetStore
}

// Load is annals.OffsetStore.
func (o offsets) Load(ctx context.Context, projection string, r annals.SliceRange) (all []annals.Position, err error) {
	k := o.s.start(ctx, annals.Call{Op: "load positions"})
	defer k.end(&err)
	if err := k.read(annals.Progress{Projection: projection, Slices: r}.Validate(k.Op, o.s.caps.Limits)); err != nil {
		return nil, err
	}
	return o.d.Load(k.in, projection, r)
}

// Handled is annals.OffsetStore.
func (o offsets) Handled(ctx context.Context, projection string, ids ...annals.PersistenceID) (all []annals.Offset, err error) {
	c := annals.Call{Op: "load offsets"}
	if len(ids) == 1 {
		c.ID = ids[0]
	}
	k := o.s.start(ctx, c)
	defer k.end(&err)
	asked := annals.Progress{Projection: projection}
	for _, id := range ids {
		asked.Offsets = append(asked.Offsets, annals.Offset{ID: id})
	}
	limits := o.s.caps.Limits
	limits.MaxOffsets = 0
	if err := k.read(asked.Validate(k.Op, limits)); err != nil || len(ids) == 0 {
		return nil, err
	}
	return o.d.Handled(k.in, projection, ids...)
}

// Save is annals.OffsetStore. Times are stored in microseconds.
func (o offsets) Save(ctx context.Context, p annals.Progress) (err error) {
	k := o.s.start(ctx, annals.Call{Op: "save offsets"})
	defer k.end(&err)
	if err := k.writes(p.Validate(k.Op, o.s.caps.Limits)); err != nil {
		return err
	}
	p.Through = micros(p.Through)
	p.Offsets = slices.Clone(p.Offsets)
	for i, each := range p.Offsets {
		p.Offsets[i] = micros(each)
	}
	return o.d.Save(k.in, p)
}

// Reset is annals.OffsetStore.
func (o offsets) Reset(ctx context.Context, projection string, r annals.SliceRange, to annals.Offset) (err error) {
	k := o.s.start(ctx, annals.Call{Op: "reset offsets"})
	defer k.end(&err)
	if err := k.writes(annals.Progress{Projection: projection, Slices: r}.Validate(k.Op, o.s.caps.Limits)); err != nil {
		return err
	}
	return o.d.Reset(k.in, projection, r, micros(to))
}

// micros returns o with its time in microseconds, rounded down.
func micros(o annals.Offset) annals.Offset {
	o.Time = o.Time.UTC().Truncate(time.Microsecond)
	return o
}
