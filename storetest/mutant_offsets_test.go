package storetest

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
)

// mutantOffsets is a store whose saves and loads of offsets are changed.
type mutantOffsets struct {
	*memstore.Store
	save func(ctx context.Context, s annals.OffsetStore, p annals.Progress) error
	load func(all []annals.Position) []annals.Position

	forgetsNothing bool
}

func (m mutantOffsets) Offsets() annals.OffsetStore { return changedOffsets{m.Store.Offsets(), m} }

type changedOffsets struct {
	annals.OffsetStore
	m mutantOffsets
}

func (o changedOffsets) Save(ctx context.Context, p annals.Progress) error {
	if o.m.save == nil {
		return o.OffsetStore.Save(ctx, p)
	}
	return o.m.save(ctx, o.OffsetStore, p)
}

func (o changedOffsets) Forget(ctx context.Context, projection string, ids ...annals.PersistenceID) error {
	if o.m.forgetsNothing {
		ids = nil
	}
	return o.OffsetStore.Forget(ctx, projection, ids...)
}

func (o changedOffsets) Load(ctx context.Context, projection string, r annals.SliceRange) ([]annals.Position, error) {
	all, err := o.OffsetStore.Load(ctx, projection, r)
	if o.m.load == nil || err != nil {
		return all, err
	}
	return o.m.load(all), nil
}

// resumesAtTheNewest joins positions at the newest Through.
func resumesAtTheNewest(all []annals.Position) []annals.Position {
	joined := all[0]
	for _, p := range all[1:] {
		joined.Slices.To = p.Slices.To
		joined.Offsets = append(joined.Offsets, p.Offsets...)
		joined.Epoch = max(joined.Epoch, p.Epoch)
		if p.Through.Compare(joined.Through) > 0 {
			joined.Through = p.Through
		}
	}
	return []annals.Position{joined}
}

// ignoresOnce saves whatever was handled before.
func ignoresOnce(ctx context.Context, s annals.OffsetStore, p annals.Progress) error {
	p.Once = false
	return s.Save(ctx, p)
}

// looksFirst looks whether its offsets are new, and saves them later: of two saves at the same time the first waits until the second has
// looked, too.
func looksFirst() func(ctx context.Context, s annals.OffsetStore, p annals.Progress) error {
	looked := make(chan struct{})
	return func(ctx context.Context, s annals.OffsetStore, p annals.Progress) error {
		for _, o := range p.Offsets {
			handled, err := s.Handled(ctx, p.Projection, o.ID)
			if err != nil {
				return err
			}
			if p.Once && handled[0].Covers(o) {
				return &annals.Error{Op: "save offsets", ID: o.ID, Kind: annals.ErrConflict}
			}
		}
		select {
		case looked <- struct{}{}:
		case <-looked:
		case <-time.After(time.Second): // no other save looks
		}
		return ignoresOnce(ctx, s, p)
	}
}

// unfenced saves with any epoch.
func unfenced(ctx context.Context, s annals.OffsetStore, p annals.Progress) error {
	p.Epoch = 0
	return s.Save(ctx, p)
}

// ordersByTime drops what is before the stored offset of its entity in time.
func ordersByTime(ctx context.Context, s annals.OffsetStore, p annals.Progress) error {
	var later []annals.Offset
	for _, o := range p.Offsets {
		handled, err := s.Handled(ctx, p.Projection, o.ID)
		if err != nil {
			return err
		}
		if o.Compare(handled[0]) > 0 {
			later = append(later, o)
		}
	}
	p.Offsets = later
	return s.Save(ctx, p)
}

// forgetsThrough saves the offsets only.
func forgetsThrough(ctx context.Context, s annals.OffsetStore, p annals.Progress) error {
	p.Through = annals.Offset{}
	return s.Save(ctx, p)
}

// joinsLives saves the highest number of each entity with its latest time.
func joinsLives(ctx context.Context, s annals.OffsetStore, p annals.Progress) error {
	joined := map[annals.PersistenceID]annals.Offset{}
	for _, o := range p.Offsets {
		if other := joined[o.ID]; other.SeqNr > o.SeqNr {
			o.SeqNr = other.SeqNr
		} else if other.Time.After(o.Time) {
			o.Time = other.Time
		}
		joined[o.ID] = o
	}
	p.Offsets = slices.Collect(maps.Values(joined))
	return s.Save(ctx, p)
}
