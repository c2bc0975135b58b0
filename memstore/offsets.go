package memstore

import (
	"context"

	"github.com/annals-go/annals"
)

// offsets is the annals.OffsetStore of a view.
type offsets struct{ view }

func (v offsets) Load(_ context.Context, projection string, r annals.SliceRange) ([]annals.Position, error) {
	d, unlock := v.read()
	defer unlock()
	return d.offsets.get(projection).Load(r), nil
}

func (v offsets) Handled(_ context.Context, projection string, ids ...annals.PersistenceID) (all []annals.Offset, err error) {
	d, unlock := v.read()
	defer unlock()
	for _, id := range ids {
		all = append(all, d.offsets.get(projection).Handled(id))
	}
	return all, nil
}

func (v offsets) Save(ctx context.Context, p annals.Progress) error {
	return v.write(ctx, func(d *data) error {
		saved, err := d.offsets.get(p.Projection).Save(p)
		if err == nil {
			d.offsets.set(p.Projection, saved)
		}
		return err
	})
}

func (v offsets) Reset(ctx context.Context, projection string, r annals.SliceRange, to annals.Offset) error {
	return v.write(ctx, func(d *data) error {
		d.offsets.set(projection, d.offsets.get(projection).Reset(r, to))
		return nil
	})
}

func (v offsets) Forget(ctx context.Context, projection string, ids ...annals.PersistenceID) error {
	return v.write(ctx, func(d *data) error {
		d.offsets.set(projection, d.offsets.get(projection).Forget(ids...))
		return nil
	})
}
