package storetest

import (
	"errors"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/annals-go/annals"
)

// progressModel is what a projection has saved, slice by slice.
type progressModel struct {
	through  [annals.SliceCount]annals.Offset
	epochs   [annals.SliceCount]int64
	entities map[annals.PersistenceID]annals.Offset
}

func (m *progressModel) handled(id annals.PersistenceID) annals.Offset {
	if o := m.entities[id]; o.Compare(m.through[id.Slice()]) > 0 {
		return o
	}
	return m.through[id.Slice()]
}

// save reports what kind of error p is, nil for none.
func (m *progressModel) save(p annals.Progress) error {
	for slice := range annals.SliceCount {
		if p.Epoch > 0 && p.Slices.Contains(slice) && m.epochs[slice] > p.Epoch {
			return annals.ErrFenced
		}
	}
	for _, o := range p.Offsets {
		if p.Once && m.handled(o.ID).Covers(o) {
			return annals.ErrConflict
		}
	}
	for _, o := range p.Offsets {
		if !m.handled(o.ID).Covers(o) {
			m.entities[o.ID] = o
		}
	}
	for slice := range annals.SliceCount {
		if !p.Slices.Contains(slice) {
			continue
		}
		m.epochs[slice] = max(m.epochs[slice], p.Epoch)
		if p.Through.Compare(m.through[slice]) > 0 {
			m.through[slice] = p.Through
		}
	}
	return nil
}

func (m *progressModel) reset(r annals.SliceRange, to annals.Offset) {
	for slice := range annals.SliceCount {
		if r.Contains(slice) {
			m.epochs[slice]++
			if m.through[slice].Compare(to) > 0 {
				m.through[slice] = to
			}
		}
	}
	for id, o := range m.entities {
		if r.Contains(id.Slice()) && o.Compare(to) > 0 {
			delete(m.entities, id)
		}
	}
}

// slicesOf returns the slice of each of ranges, which have one.
func slicesOf(ranges []annals.SliceRange) (all []int) {
	for _, r := range ranges {
		for slice := range annals.SliceCount {
			if r.Contains(slice) {
				all = append(all, slice)
			}
		}
	}
	return all
}

// positions are those of r, one for each slice. order is the slices with the numbers from first on.
func (m *progressModel) positions(order []int, first int, r annals.SliceRange) (all []annals.Position) {
	for i, slice := range order {
		if !r.Contains(slice) {
			continue
		}
		p := annals.Position{Slices: sliceRange(first+i, first+i+1), Epoch: m.epochs[slice], Through: m.through[slice]}
		for id, o := range m.entities {
			if id.Slice() == slice && o.Compare(p.Through) > 0 {
				p.Offsets = append(p.Offsets, o)
			}
		}
		slices.SortFunc(p.Offsets, annals.Offset.Compare)
		all = append(all, p)
	}
	return all
}

func randomProgress(h *harness) {
	var entities []annals.PersistenceID
	for i := range 8 {
		entities = append(entities, annals.PersistenceID(fmt.Sprintf("Thing|%d", i)))
	}
	entities = append(entities, sameSlice[:3]...)
	near, far := slicesOf(annals.SliceRanges(annals.SliceCount)), slicesOf(annals.SpreadRanges(annals.SliceCount))
	round := 0
	rapid.Check(h.TB, func(t *rapid.T) {
		round++
		projection := fmt.Sprintf("random %d", round)
		m := &progressModel{entities: map[annals.PersistenceID]annals.Offset{}}
		order, first := near, 0
		if rapid.Bool().Draw(t, "slices far apart") {
			order, first = far, annals.SliceCount
		}
		anyRange := rapid.Custom(func(t *rapid.T) annals.SliceRange {
			cut := []int{0, 256, 300, 512, 700, annals.SliceCount}
			from := rapid.IntRange(0, len(cut)-2).Draw(t, "from")
			return sliceRange(first+cut[from], first+cut[rapid.IntRange(from+1, len(cut)-1).Draw(t, "to")])
		})
		steps := rapid.IntRange(1, 8).Draw(t, "steps")
		for step := range steps {
			r := anyRange.Draw(t, "slices")
			if step > 0 && rapid.IntRange(0, 3).Draw(t, "all slices") == 0 { // in the kind of the first step
				r = annals.SliceRange{}
			}
			what := rapid.IntRange(0, 6).Draw(t, "what")
			if what == 1 && step > 0 {
				ids := rapid.SliceOfN(rapid.SampledFrom(entities), 0, 4).Draw(t, "forgotten")
				if err := h.store.Offsets().Forget(h.ctx, projection, ids...); err != nil {
					t.Fatalf("forget %q: got error %v, want none", ids, err)
				}
				for _, id := range ids {
					delete(m.entities, id)
				}
				continue
			}
			if what == 0 {
				to := annals.Offset{Time: through(rapid.IntRange(0, 50).Draw(t, "reset to")).Time}
				if err := h.store.Offsets().Reset(h.ctx, projection, r, to); err != nil {
					t.Fatalf("reset %s to %+v: got error %v, want none", r, to, err)
				}
				m.reset(r, to)
				continue
			}
			p := annals.Progress{Projection: projection, Slices: r, Epoch: rapid.Int64Range(0, 4).Draw(t, "epoch"), Once: rapid.Bool().Draw(t, "once")}
			if rapid.Bool().Draw(t, "with Through") {
				p.Through = through(rapid.IntRange(1, 50).Draw(t, "through"))
			}
			for _, id := range entities {
				if r.Contains(id.Slice()) && rapid.Bool().Draw(t, "entity") {
					n := rapid.IntRange(1, 50).Draw(t, "number")
					p.Offsets = append(p.Offsets, offsetAt(id, annals.SeqNr(n), n))
				}
			}
			err := h.store.Offsets().Save(h.ctx, p)
			if want := m.save(p); !errors.Is(err, want) {
				t.Fatalf("save %+v: got error %v, want %v", p, err, want)
			}
		}
		r := anyRange.Draw(t, "loaded")
		if steps > 0 && rapid.Bool().Draw(t, "all loaded") {
			r = annals.SliceRange{}
		}
		got, err := h.store.Offsets().Load(h.ctx, projection, r)
		if want := m.positions(order, first, r); err != nil || !slices.EqualFunc(sliceBySlice(got), want, samePosition) {
			t.Fatalf("load %s: got %+v, error %v, want %+v", r, got, err, want)
		}
		handled, err := h.store.Offsets().Handled(h.ctx, projection, entities...)
		if err != nil {
			t.Fatalf("offsets of %d entities: got error %v, want none", len(entities), err)
		}
		for i, id := range entities {
			if handled[i].Compare(m.handled(id)) != 0 {
				t.Fatalf("offset of %q: got %+v, want %+v", id, handled[i], m.handled(id))
			}
		}
	})
}

// sliceBySlice divides positions into those of single slices.
func sliceBySlice(all []annals.Position) (divided []annals.Position) {
	for _, p := range all {
		for slice := p.Slices.From; slice < p.Slices.To; slice++ {
			one := annals.Position{Slices: sliceRange(slice, slice+1), Epoch: p.Epoch, Through: p.Through}
			for _, o := range p.Offsets {
				if one.Slices.Contains(o.ID.Slice()) {
					one.Offsets = append(one.Offsets, o)
				}
			}
			divided = append(divided, one)
		}
	}
	return divided
}
