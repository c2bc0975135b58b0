package driver

import (
	"context"

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
func (o offsets) Load(ctx context.Context, projection string, r annals.SliceRange) (all []annals.Offset, err error) {
	k := o.s.start(ctx, annals.Call{Op: "load offsets"})
	defer k.end(&err)
	if err := k.read(annals.Progress{Projection: projection, Slices: r}.Validate(k.Op)); err != nil {
		return nil, err
	}
	return o.d.Load(k.in, projection, r)
}

// Handled is annals.OffsetStore.
func (o offsets) Handled(ctx context.Context, projection string, id annals.PersistenceID) (newest annals.Offset, ok bool, err error) {
	k := o.s.start(ctx, annals.Call{Op: "load offset", ID: id})
	defer k.end(&err)
	fault := annals.Progress{Projection: projection}.Validate(k.Op)
	if fault == nil {
		fault = id.ValidateRead(k.Op, o.s.caps.Limits)
	}
	if err := k.read(fault); err != nil {
		return annals.Offset{}, false, err
	}
	return o.d.Handled(k.in, projection, id)
}

// Save is annals.OffsetStore.
func (o offsets) Save(ctx context.Context, p annals.Progress) (err error) {
	k := o.s.start(ctx, annals.Call{Op: "save offsets"})
	defer k.end(&err)
	if err := k.writes(p.Validate(k.Op)); err != nil {
		return err
	}
	return o.d.Save(k.in, p)
}

// Reset is annals.OffsetStore.
func (o offsets) Reset(ctx context.Context, projection string, r annals.SliceRange, to annals.Offset) (err error) {
	k := o.s.start(ctx, annals.Call{Op: "reset offsets"})
	defer k.end(&err)
	if err := k.writes(annals.Progress{Projection: projection, Slices: r}.Validate(k.Op)); err != nil {
		return err
	}
	return o.d.Reset(k.in, projection, r, to)
}
