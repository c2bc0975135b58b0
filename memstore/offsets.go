package memstore

import (
	"context"
	"fmt"

	"github.com/annals-go/annals"
)

// offsets is the annals.OffsetStore of a view.
type offsets struct{ view }

// progress is what is known of one projection.
type progress struct {
	offsets map[annals.PersistenceID]annals.Offset
	epochs  [annals.SliceCount]int64 // the highest seen, slice by slice
}

func (v offsets) Load(ctx context.Context, projection string, r annals.SliceRange) ([]annals.Offset, error) {
	d, unlock := v.read(ctx)
	defer unlock()
	bySlice := map[int][]annals.Offset{}
	for id, o := range d.offsets[projection].offsets {
		slice := id.Slice()
		if !r.Contains(slice) {
			continue
		}
		switch newest := bySlice[slice]; {
		case len(newest) == 0 || o.Time.After(newest[0].Time):
			bySlice[slice] = []annals.Offset{o}
		case o.Time.Equal(newest[0].Time):
			bySlice[slice] = append(newest, o)
		}
	}
	var all []annals.Offset
	for _, newest := range bySlice {
		all = append(all, newest...)
	}
	return all, nil
}

func (v offsets) Handled(ctx context.Context, projection string, id annals.PersistenceID) (annals.Offset, bool, error) {
	d, unlock := v.read(ctx)
	defer unlock()
	o, ok := d.offsets[projection].offsets[id]
	return o, ok, nil
}

func (v offsets) Save(_ context.Context, p annals.Progress) error {
	d, unlock := v.write()
	defer unlock()
	known := d.offsets[p.Projection]
	if p.Epoch != 0 {
		from, to := p.Slices.Bounds()
		for slice := from; slice < to; slice++ {
			if seen := known.epochs[slice]; seen > p.Epoch {
				return &annals.Error{Kind: annals.ErrFenced,
					Err: fmt.Errorf("projection %s, slices %v: epoch %d, but %d was seen", annals.Quote(p.Projection), p.Slices, p.Epoch, seen)}
			}
		}
		for slice := from; slice < to; slice++ {
			known.epochs[slice] = p.Epoch
		}
	}
	if known.offsets == nil {
		known.offsets = map[annals.PersistenceID]annals.Offset{}
	}
	for _, o := range p.Offsets {
		if o.Compare(known.offsets[o.ID]) > 0 {
			known.offsets[o.ID] = o
		}
	}
	d.offsets[p.Projection] = known
	return nil
}

func (v offsets) Reset(_ context.Context, projection string, r annals.SliceRange, to annals.Offset) error {
	d, unlock := v.write()
	defer unlock()
	for id, o := range d.offsets[projection].offsets {
		if r.Contains(id.Slice()) && o.Compare(to) >= 0 {
			delete(d.offsets[projection].offsets, id)
		}
	}
	return nil
}
