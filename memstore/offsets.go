package memstore

import (
	"context"

	"github.com/annals-go/annals"
)

// offsets is the annals.OffsetStore of a view.
type offsets struct{ view }

func (v offsets) Load(ctx context.Context, projection string, r annals.SliceRange) ([]annals.Position, error) {
	d, unlock := v.read(ctx)
	defer unlock()
	return d.offsets.get(projection).Load(r), nil
}

func (v offsets) Handled(ctx context.Context, projection string, ids ...annals.PersistenceID) (all []annals.Offset, err error) {
	d, unlock := v.read(ctx)
	defer unlock()
	for _, id := range ids {
		all = append(all, d.offsets.get(projection).Handled(id))
	}
	return all, nil
}

func (v offsets) Save(_ context.Context, p annals.Progress) error {
	d, unlock := v.write()
	defer unlock()
	saved, err := d.offsets.get(p.Projection).Save(p)
	if err == nil {
		d.offsets.set(p.Projection, saved)
	}
	return err
}

func (v offsets) Reset(_ context.Context, projection string, r annals.SliceRange, to annals.Offset) error {
	d, unlock := v.write()
	defer unlock()
	d.offsets.set(projection, d.offsets.get(projection).Reset(r, to))
	return nil
}
