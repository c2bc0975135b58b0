package storetest

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
)

// saving is a memstore whose saves of offsets are changed.
func saving(save func(ctx context.Context, s annals.OffsetStore, p annals.Progress) error) annals.Store {
	return memoryAround(func(ctx context.Context, c *faulty.Call, run func() error) error {
		if p, ok := c.Arg.(*annals.Progress); ok {
			return save(ctx, c.Store.Offsets(), *p)
		}
		return run()
	})
}

func forgetsNothing(_ context.Context, c *faulty.Call, run func() error) error {
	if c.Op == "forget offsets" {
		return nil
	}
	return run()
}

// resumesAtTheNewest joins the positions that are loaded at the newest Through.
func resumesAtTheNewest(_ context.Context, c *faulty.Call, run func() error) error {
	all, ok := c.Result.(*[]annals.Position)
	if err := run(); err != nil || !ok {
		return err
	}
	joined := (*all)[0]
	for _, p := range (*all)[1:] {
		joined.Slices.To = p.Slices.To
		joined.Offsets = append(joined.Offsets, p.Offsets...)
		joined.Epoch = max(joined.Epoch, p.Epoch)
		if p.Through.Compare(joined.Through) > 0 {
			joined.Through = p.Through
		}
	}
	*all = []annals.Position{joined}
	return nil
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
