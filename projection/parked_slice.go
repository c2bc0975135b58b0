package projection

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/document"
	"github.com/annals-go/annals/internal/progress"
	"github.com/annals-go/annals/internal/quote"
)

// parkedSlice is the parked entities of a projection in one slice. They are one durable state, and revision is the one that was read.
//
// Another durable state lists the slices that have parked entities, and perhaps others. Whoever adds the first entity of a slice reads the
// slice, then writes the list, and then the slice. Whoever takes a slice off the list reads the list, writes the slice, which has no
// entities, and then the list. So of two that do this at the same time one gets ErrConflict at its second write, and no entity is stored that the
// list does not lead to.
type parkedSlice struct {
	document document.Document[parkedEntities]
	slice    int
	revision annals.SeqNr
	entities parkedEntities // not nil
}

type parkedEntities map[annals.PersistenceID]ParkedEntity

var (
	parkedCodec       = codec.JSON[parkedEntities]("annals.parked")
	parkedSlicesCodec = codec.JSON[[]int]("annals.parked-slices")
)

// parkedOf is the document with the parked entities of projection in slice.
func parkedOf(projection string, slice int) document.Document[parkedEntities] {
	return document.Document[parkedEntities]{ID: progress.ParkedID(projection, slice), Codec: parkedCodec, Check: func(p parkedEntities) error {
		for id, x := range p {
			if x.ID != id || id.Slice() != slice || x.From < 1 {
				return fmt.Errorf("the entry of entity %s is wrong", quote.Text(string(id)))
			}
		}
		return nil
	}}
}

// parkedSlicesOf is the document with the list of slices of projection, in their order.
func parkedSlicesOf(projection string) document.Document[[]int] {
	return document.Document[[]int]{ID: annals.NewPersistenceID("annals.parked-slices", projection), Codec: parkedSlicesCodec, Check: func(list []int) error {
		for i, slice := range list {
			if slice < 0 || slice >= annals.SliceCount || i > 0 && slice <= list[i-1] {
				return fmt.Errorf("slice %d is out of place", slice)
			}
		}
		return nil
	}}
}

// loadParked reads the parked entities of projection in slice.
func loadParked(ctx context.Context, s annals.Store, projection string, slice int) (p parkedSlice, err error) {
	p.document, p.slice = parkedOf(projection, slice), slice
	p.entities, p.revision, err = p.document.Load(ctx, s)
	if p.entities == nil {
		p.entities = parkedEntities{}
	}
	return p, err
}

// save stores the entities of p. ErrConflict when others have done so since p was read.
func (p parkedSlice) save(ctx context.Context, in annals.Store) error {
	return p.document.Save(ctx, in, p.revision, p.entities)
}

// remove removes the entities for which leave is false, and returns whether there were any.
func (p parkedSlice) remove(leave func(ParkedEntity) bool) bool {
	before := len(p.entities)
	maps.DeleteFunc(p.entities, func(_ annals.PersistenceID, x ParkedEntity) bool { return !leave(x) })
	return len(p.entities) < before
}

// sorted returns the entities of p in the order of their ids.
func (p parkedSlice) sorted() []ParkedEntity {
	return slices.SortedFunc(maps.Values(p.entities), func(a, b ParkedEntity) int { return cmp.Compare(a.ID, b.ID) })
}

// allParked yields the slices of r on the list of projection, in their order. Some have no entities.
func allParked(ctx context.Context, s annals.Store, projection string, r annals.SliceRange) iter.Seq2[parkedSlice, error] {
	return func(yield func(parkedSlice, error) bool) {
		list, err := listedParked(ctx, s, projection, r)
		if err != nil {
			yield(parkedSlice{}, err)
			return
		}
		for _, slice := range list {
			p, err := loadParked(ctx, s, projection, slice)
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// listedParked returns the slices of r on the list of projection.
func listedParked(ctx context.Context, s annals.Store, projection string, r annals.SliceRange) ([]int, error) {
	list, _, err := parkedSlicesOf(projection).Load(ctx, s)
	return slices.DeleteFunc(list, func(slice int) bool { return !r.Contains(slice) }), err
}

// listParked puts slice on the list of projection, also when it is there: the write is what others notice.
func listParked(ctx context.Context, s annals.Store, projection string, slice int) error {
	return parkedSlicesOf(projection).Change(ctx, s, func(list *[]int) error {
		if i, found := slices.BinarySearch(*list, slice); !found {
			*list = slices.Insert(*list, i, slice)
		}
		return nil
	})
}

// unlistParked takes the given slices off the list of projection, but those with entities.
func unlistParked(ctx context.Context, s annals.Store, projection string, unused []int) error {
	return parkedSlicesOf(projection).Change(ctx, s, func(list *[]int) error {
		for _, slice := range unused {
			p, err := loadParked(ctx, s, projection, slice)
			if err == nil && len(p.entities) == 0 {
				err = p.save(ctx, s)
			}
			if err != nil {
				return err
			}
			if i, found := slices.BinarySearch(*list, slice); found && len(p.entities) == 0 {
				*list = slices.Delete(*list, i, i+1)
			}
		}
		return nil
	})
}
