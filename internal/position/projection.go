package position

import (
	"maps"
	"slices"

	"github.com/annals-go/annals"
)

// Projection is what one projection has saved. Its values are replaced and never changed in place, so that a copy stays as it was.
type Projection struct {
	Ranges   Ranges
	Entities map[annals.PersistenceID]annals.Offset // beyond the Through of their slices
}

// Load is annals.OffsetStore.
func (k Projection) Load(r annals.SliceRange) []annals.Position {
	return k.Ranges.Positions(r, slices.Collect(maps.Values(k.Entities)))
}

// Handled is annals.OffsetStore, for one entity.
func (k Projection) Handled(id annals.PersistenceID) annals.Offset {
	return k.Ranges.Handled(id, k.Entities[id])
}

// Save returns k after p is saved, without the offsets that a Through covers.
func (k Projection) Save(p annals.Progress) (Projection, error) {
	ranges, err := k.Ranges.Save(p)
	if err != nil {
		return k, err
	}
	news, err := k.Ranges.News(p, k.Entities)
	if err != nil {
		return k, err
	}
	saved := Projection{ranges, maps.Clone(k.Entities)}
	if saved.Entities == nil {
		saved.Entities = map[annals.PersistenceID]annals.Offset{}
	}
	maps.Copy(saved.Entities, news)
	maps.DeleteFunc(saved.Entities, func(id annals.PersistenceID, o annals.Offset) bool {
		return ranges.At(id.Slice()).Through.Compare(o) >= 0
	})
	return saved, nil
}

// Within returns what k has of the slices of r.
func (k Projection) Within(r annals.SliceRange) Projection {
	part := Projection{k.Ranges.Within(r), maps.Clone(k.Entities)}
	maps.DeleteFunc(part.Entities, func(id annals.PersistenceID, _ annals.Offset) bool { return !r.Contains(id.Slice()) })
	return part
}

// Join returns k with other, which is of other slices.
func (k Projection) Join(other Projection) Projection {
	all := Projection{k.Ranges, map[annals.PersistenceID]annals.Offset{}}
	for _, x := range other.Ranges {
		all.Ranges = all.Ranges.Add(x)
	}
	maps.Copy(all.Entities, k.Entities)
	maps.Copy(all.Entities, other.Entities)
	return all
}

// Equal reports whether k and other are the same.
func (k Projection) Equal(other Projection) bool {
	return slices.EqualFunc(k.Ranges.joined(), other.Ranges.joined(), func(a, b Range) bool { return a.slices() == b.slices() && a.same(b) }) &&
		maps.EqualFunc(k.Entities, other.Entities, func(a, b annals.Offset) bool { return a.Compare(b) == 0 })
}

// Reset returns k after r is reset to to.
func (k Projection) Reset(r annals.SliceRange, to annals.Offset) Projection {
	reset := Projection{k.Ranges.Reset(r, to), maps.Clone(k.Entities)}
	maps.DeleteFunc(reset.Entities, func(id annals.PersistenceID, o annals.Offset) bool {
		return r.Contains(id.Slice()) && o.Compare(to) > 0
	})
	return reset
}

// Forget returns k without the offsets of ids.
func (k Projection) Forget(ids ...annals.PersistenceID) Projection {
	left := Projection{k.Ranges, maps.Clone(k.Entities)}
	for _, id := range ids {
		delete(left.Entities, id)
	}
	return left
}
