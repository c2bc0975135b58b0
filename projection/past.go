package projection

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/document"
	"github.com/annals-go/annals/internal/position"
	"github.com/annals-go/annals/internal/progress"
	"github.com/annals-go/annals/internal/quote"
)

// past is what a projection had handled before it was reset, or what the old projection of a Rebuild has handled: the events that the positions
// cover, but those that waited because their entity was parked, or because they were late. A store keeps the positions under another name of a projection, progress.PastName,
// and for each slice with parked entities a durable state with what waited.
type past struct {
	start
	waited waited
}

// waited is by entity what the positions of a past cover and had not been handled.
type waited map[annals.PersistenceID]wait

// wait is the events of an entity that waited: those from From on, and events of a later life of the entity.
type wait struct {
	From    annals.SeqNr  `json:"from"`
	Time    time.Time     `json:"time"`             // of that event
	LateTo  annals.SeqNr  `json:"lateTo,omitempty"` // the last that waited, if they were late events; 0: they have no end
	Handled annals.Offset `json:"handled,omitzero"` // what it covers was handled before, or after it had waited
}

// handled reports whether the event at o was handled, if the positions cover it.
func (x wait) handled(o annals.Offset) bool {
	before := o.SeqNr < x.From && x.offset(o.ID).Covers(o)
	return before || x.ends(o.SeqNr) || x.Handled.Covers(o)
}

// ends reports whether the event number n is after those that waited.
func (x wait) ends(n annals.SeqNr) bool { return x.LateTo > 0 && n > x.LateTo }

func (x wait) offset(id annals.PersistenceID) annals.Offset {
	return annals.Offset{Time: x.Time, SeqNr: x.From, ID: id}
}

// covers reports whether the event at o was handled. A nil past covers nothing.
func (p *past) covers(o annals.Offset) bool {
	if p == nil || !p.start.covers(o) {
		return false
	}
	x, found := p.waited[o.ID]
	return !found || x.handled(o)
}

// with returns what p and q have handled together, as waits of the entities that have some in one of them. handled is what the positions of
// both cover of an entity.
func (p *past) with(q *past, handled func(annals.PersistenceID) annals.Offset) waited {
	all := waited{}
	for id, x := range p.waited {
		all[id] = x.after(q.start.handled(id))
	}
	for id, y := range q.waited {
		if x, both := p.waited[id]; !both || x.ends(y.From) {
			all[id] = y.after(p.start.handled(id))
		} else if !y.ends(x.From) {
			all[id] = x.and(y, id)
		}
	}
	maps.DeleteFunc(all, func(id annals.PersistenceID, x wait) bool { return x.Handled.Compare(handled(id)) >= 0 })
	return all
}

// after is x when o, and what it covers, was handled at another time.
func (x wait) after(o annals.Offset) wait {
	if o.Compare(x.Handled) > 0 {
		x.Handled = o
	}
	return x
}

// and is what waited at two times.
func (x wait) and(y wait, id annals.PersistenceID) wait {
	if y.offset(id).Compare(x.offset(id)) > 0 {
		x.From, x.Time = y.From, y.Time
	}
	if x.LateTo > 0 && (y.LateTo == 0 || y.LateTo > x.LateTo) {
		x.LateTo = y.LateTo
	}
	return x.after(y.Handled)
}

var waitedCodec = codec.JSON[waited]("annals.waited")

// waitedOf is the document with what waited in slice before projection was reset.
func waitedOf(projection string, slice int) document.Document[waited] {
	return document.Document[waited]{ID: progress.ParkedID(progress.PastName(projection), slice), Codec: waitedCodec, Check: func(all waited) error {
		for id, x := range all {
			if id.Slice() != slice || x.From < 1 {
				return fmt.Errorf("the entry of entity %s is wrong", quote.Text(string(id)))
			}
		}
		return nil
	}}
}

// loadPast reads the past of projection in r, nil when there is none.
func loadPast(ctx context.Context, s annals.Store, projection string, r annals.SliceRange) (*past, error) {
	positions, err := s.Offsets().Load(ctx, progress.PastName(projection), r)
	if err != nil || !slices.ContainsFunc(positions, saved) {
		return nil, err
	}
	all, err := loadWaited(ctx, s, projection, r)
	return &past{newStart(positions, annals.Offset{}), all}, err
}

// loadWaited reads what waited in r before projection was reset.
func loadWaited(ctx context.Context, s annals.Store, projection string, r annals.SliceRange) (waited, error) {
	found := waited{}
	list, err := listedParked(ctx, s, progress.PastName(projection), r)
	if err != nil {
		return nil, err
	}
	for _, slice := range list {
		all, _, err := waitedOf(projection, slice).Load(ctx, s)
		if err != nil {
			return nil, err
		}
		maps.Copy(found, all)
	}
	return found, nil
}

// saved reports whether p says that something was handled.
func saved(p annals.Position) bool { return p.Through != (annals.Offset{}) || len(p.Offsets) > 0 }

// keepPast adds what the projection of c has handled to the past of projection in s, whose record is r: since it was reset last, and before. What is in
// that past stays there.
func (c *Control) keepPast(ctx context.Context, s annals.Store, projection string, r record) error {
	before, err := loadPast(ctx, c.store, c.name, annals.SliceRange{})
	if err != nil {
		return err
	}
	// The entry of a parked entity is written before the position passes its event. So it is read after the position.
	positions, err := c.store.Offsets().Load(ctx, c.name, annals.SliceRange{})
	if err != nil {
		return err
	}
	since := &past{newStart(positions, annals.Offset{}), waited{}}
	for p, err := range allParked(ctx, c.store, c.name, annals.SliceRange{}) {
		if err != nil {
			return err
		}
		for id, x := range p.entities {
			if since.start.covers(x.offset()) {
				since.waited[id] = wait{From: x.From, Time: x.Time, LateTo: x.LateTo}
			}
		}
	}
	spread := position.Spread(r.whole())
	if before != nil && projection != c.name {
		if err := addPast(ctx, s, projection, spread, before); err != nil {
			return err
		}
	}
	return addPast(ctx, s, projection, spread, since)
}

// addPast adds q to the past of projection, whose ranges are of annals.SpreadRanges if spread says so. The past has the same ranges, so that all
// calls save it in one kind. What waited is stored before the positions, so that no event counts as handled that was not.
func addPast(ctx context.Context, s annals.Store, projection string, spread bool, q *past) error {
	name := progress.PastName(projection)
	positions, err := s.Offsets().Load(ctx, name, annals.SliceRange{})
	if err != nil {
		return err
	}
	waits, err := loadWaited(ctx, s, projection, annals.SliceRange{}) // also those of a call that failed before it saved positions
	if err != nil {
		return err
	}
	p := &past{newStart(positions, annals.Offset{}), waits}
	before := bySlice(p.waited)
	after := bySlice(p.with(q, func(id annals.PersistenceID) annals.Offset {
		return wait{Handled: p.start.handled(id)}.after(q.start.handled(id)).Handled
	}))
	for slice := range annals.SliceCount {
		if maps.Equal(before[slice], after[slice]) {
			continue
		}
		if len(after[slice]) > 0 {
			if err := listParked(ctx, s, name, slice); err != nil {
				return err
			}
		}
		if err := waitedOf(projection, slice).Change(ctx, s, func(all *waited) error { *all = after[slice]; return nil }); err != nil {
			return err
		}
	}
	for _, x := range q.positions {
		if !saved(x) {
			continue
		}
		for _, r := range position.As(x.Slices, spread) {
			step := annals.Progress{Projection: name, Slices: r, Through: x.Through}
			if err := s.Offsets().Save(ctx, step); err != nil {
				return err
			}
			for _, o := range x.Offsets {
				if r.Contains(o.ID.Slice()) {
					step.Offsets = append(step.Offsets, o)
				}
			}
			if err := progress.SaveOffsets(ctx, s, step); err != nil {
				return err
			}
		}
	}
	return nil
}

func bySlice(all waited) map[int]waited {
	parts := map[int]waited{}
	for id, x := range all {
		slice := id.Slice()
		if parts[slice] == nil {
			parts[slice] = waited{}
		}
		parts[slice][id] = x
	}
	return parts
}
