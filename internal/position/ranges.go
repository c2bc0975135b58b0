// Package position computes how far a projection has come: what stores keep for the ranges of slices of its workers.
package position

import (
	"fmt"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/quote"
)

// Range is what a projection has saved for the slices From ≤ s < To.
type Range struct {
	From, To int
	Epoch    int64
	Through  annals.Offset
}

func (x Range) slices() annals.SliceRange { return annals.SliceRange{From: x.From, To: x.To} }

// same reports whether x and y differ in their slices only.
func (x Range) same(y Range) bool { return x.Epoch == y.Epoch && x.Through.Compare(y.Through) == 0 }

// Ranges are in the order of their numbers and do not overlap. Nothing has been saved for the slices between them. Those of one projection are
// either of annals.SliceRanges or of annals.SpreadRanges.
type Ranges []Range

// At returns the Range that slice is in.
func (rs Ranges) At(slice int) Range {
	for _, x := range rs {
		if x.slices().Contains(slice) {
			return x
		}
	}
	return Range{From: slice, To: slice + 1}
}

// End is the first number after those that slices have in ranges.
const End = 2 * annals.SliceCount

// Overlap returns the bounds of the saved ranges that count for r: of all for the zero SliceRange.
func Overlap(r annals.SliceRange) (from, to int) {
	if r == (annals.SliceRange{}) {
		return 0, End
	}
	return r.From, r.To
}

// Slices returns the slices of r.
func Slices(r annals.SliceRange) (all []int32) {
	for slice := range annals.SliceCount {
		if r.Contains(slice) {
			all = append(all, int32(slice))
		}
	}
	return all
}

// Spread reports whether r is of annals.SpreadRanges, and not of annals.SliceRanges.
func Spread(r annals.SliceRange) bool { return r.From >= annals.SliceCount }

// Divide is annals.SpreadRanges or annals.SliceRanges.
func Divide(n int, spread bool) []annals.SliceRange {
	if spread {
		return annals.SpreadRanges(n)
	}
	return annals.SliceRanges(n)
}

// As returns the slices of r in ranges of the kind that spread says: r, or one range for each slice where r is of the other kind.
func As(r annals.SliceRange, spread bool) []annals.SliceRange {
	if Spread(r) == spread {
		return []annals.SliceRange{r}
	}
	all := Slices(r)
	return slices.DeleteFunc(Divide(annals.SliceCount, spread), func(one annals.SliceRange) bool {
		return !slices.ContainsFunc(all, func(slice int32) bool { return one.Contains(int(slice)) })
	})
}

// Bounds returns those of r. All slices have the numbers that they have in rs.
func (rs Ranges) Bounds(r annals.SliceRange) (from, to int) {
	if n := len(rs); n > 0 && rs[n-1].To > annals.SliceCount && r == (annals.SliceRange{}) {
		return annals.SliceCount, End
	}
	return r.Bounds()
}

// cut returns the parts of rs in the slices from ≤ s < to.
func (rs Ranges) cut(from, to int) (parts Ranges) {
	for _, x := range rs {
		if x.From, x.To = max(x.From, from), min(x.To, to); x.From < x.To {
			parts = append(parts, x)
		}
	}
	return parts
}

// Within returns the parts of rs in r, and a Range without a value for each part of r that rs leaves out. Neighbours that are the same
// become one.
func (rs Ranges) Within(r annals.SliceRange) (parts Ranges) {
	from, to := rs.Bounds(r)
	for _, x := range rs.cut(from, to) {
		if from < x.From {
			parts = append(parts, Range{From: from, To: x.From})
		}
		parts, from = append(parts, x), x.To
	}
	if from < to {
		parts = append(parts, Range{From: from, To: to})
	}
	return parts.joined()
}

// joined returns rs with neighbours that are the same made one.
func (rs Ranges) joined() (all Ranges) {
	for _, x := range rs {
		if n := len(all); n > 0 && all[n-1].To == x.From && all[n-1].same(x) {
			all[n-1].To = x.To
		} else {
			all = append(all, x)
		}
	}
	return all
}

// change returns rs with each part of r changed. It divides a Range only where r begins or ends.
func (rs Ranges) change(r annals.SliceRange, change func(*Range)) Ranges {
	from, to := rs.Bounds(r)
	parts := rs.Within(r)
	for i := range parts {
		change(&parts[i])
	}
	return slices.Concat(rs.cut(0, from), parts.joined(), rs.cut(to, End))
}

// Add returns rs with x, which may overlap others: the highest epoch and the furthest Through count.
func (rs Ranges) Add(x Range) Ranges {
	return rs.change(x.slices(), func(part *Range) {
		part.Epoch = max(part.Epoch, x.Epoch)
		if x.Through.Compare(part.Through) > 0 {
			part.Through = x.Through
		}
	})
}

// Save returns rs after p is saved, or ErrFenced.
func (rs Ranges) Save(p annals.Progress) (Ranges, error) {
	from, to := rs.Bounds(p.Slices)
	var seen int64
	for _, x := range rs.cut(from, to) {
		seen = max(seen, x.Epoch)
	}
	if p.Epoch > 0 && seen > p.Epoch {
		return nil, &annals.Error{Kind: annals.ErrFenced,
			Err: fmt.Errorf("projection %s, slices %s: epoch %d, but %d was seen", quote.Text(p.Projection), p.Slices, p.Epoch, seen)}
	}
	return rs.Add(Range{From: from, To: to, Epoch: p.Epoch, Through: p.Through}), nil
}

// Reset returns rs after r is reset to to.
func (rs Ranges) Reset(r annals.SliceRange, to annals.Offset) Ranges {
	return rs.change(r, func(x *Range) {
		x.Epoch++
		if x.Through.Compare(to) > 0 {
			x.Through = to
		}
	})
}

// Handled returns what annals.OffsetStore.Handled does for an entity with the stored offset own, which may be zero.
func (rs Ranges) Handled(id annals.PersistenceID, own annals.Offset) annals.Offset {
	if through := rs.At(id.Slice()).Through; through.Compare(own) > 0 {
		return through
	}
	return own
}

// IDs returns the entities of offsets, each once, sorted.
func IDs(offsets []annals.Offset) []annals.PersistenceID {
	ids := make([]annals.PersistenceID, len(offsets))
	for i, o := range offsets {
		ids[i] = o.ID
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// News returns the offsets to store for the entities of p, whose stored offsets are own, or ErrConflict as p.Once says. rs is what was
// stored before p. The result is as if each offset of p were saved by itself, in their order.
func (rs Ranges) News(p annals.Progress, own map[annals.PersistenceID]annals.Offset) (map[annals.PersistenceID]annals.Offset, error) {
	news := map[annals.PersistenceID]annals.Offset{}
	for _, o := range p.Offsets {
		handled := rs.Handled(o.ID, own[o.ID])
		if handled.Covers(o) {
			if p.Once {
				return nil, &annals.Error{ID: o.ID, After: o.SeqNr - 1, Last: own[o.ID].SeqNr, Kind: annals.ErrConflict,
					Err: fmt.Errorf("projection %s has handled number %d before", quote.Text(p.Projection), o.SeqNr)}
			}
			continue
		}
		if other, ok := news[o.ID]; ok {
			handled = other
		}
		switch {
		case handled.ID != o.ID:
		case handled.Covers(o):
			continue
		case handled.Time.After(o.Time):
			o.Time = handled.Time // so that the offset covers what came before
		}
		news[o.ID] = o
	}
	return news, nil
}

// Positions returns the positions of r, with offsets, which are those of entities in any order.
func (rs Ranges) Positions(r annals.SliceRange, offsets []annals.Offset) (all []annals.Position) {
	slices.SortFunc(offsets, annals.Offset.Compare)
	for _, x := range rs.Within(r) {
		p := annals.Position{Slices: x.slices(), Epoch: x.Epoch, Through: x.Through}
		for _, o := range offsets {
			if p.Slices.Contains(o.ID.Slice()) && o.Compare(p.Through) > 0 {
				p.Offsets = append(p.Offsets, o)
			}
		}
		all = append(all, p)
	}
	return all
}
