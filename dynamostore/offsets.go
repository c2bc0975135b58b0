package dynamostore

import (
	"context"

	"github.com/annals-go/annals"
)

type offsetsView struct{ view }

// Load is annals.OffsetStore.
func (v offsetsView) Load(ctx context.Context, projection string, r annals.SliceRange) (all []annals.Offset, err error) {
	err = v.call(ctx, annals.Call{Op: "load offsets"}, false, func(ctx context.Context) (err error) {
		all, err = v.s.offer.Offsets.Load(ctx, v.x, projection, r)
		return err
	})
	return all, err
}

// Handled is annals.OffsetStore.
func (v offsetsView) Handled(ctx context.Context, projection string, id annals.PersistenceID) (o annals.Offset, ok bool, err error) {
	err = v.call(ctx, annals.Call{Op: "load offset", ID: id}, false, func(ctx context.Context) (err error) {
		o, ok, err = v.s.offer.Offsets.Handled(ctx, v.x, projection, id)
		return err
	})
	return o, ok, err
}

// Save is annals.OffsetStore. Entities and the slice groups that they are in go as one transaction: ErrTooLarge when they
// are more than 100 together.
func (v offsetsView) Save(ctx context.Context, p annals.Progress) error {
	if err := p.Validate("save offsets"); err != nil {
		return err
	}
	return v.call(ctx, annals.Call{Op: "save offsets"}, true, func(ctx context.Context) error {
		return v.s.offer.Offsets.Save(ctx, v.x, p)
	})
}

// Reset is annals.OffsetStore.
func (v offsetsView) Reset(ctx context.Context, projection string, r annals.SliceRange, to annals.Offset) error {
	return v.call(ctx, annals.Call{Op: "reset offsets"}, true, func(ctx context.Context) error {
		return v.s.offer.Offsets.Reset(ctx, v.x, projection, r, to)
	})
}
