package projection

import "github.com/annals-go/annals"

// start is where a worker begins: the positions of its slices, which may be several, because the ranges of former workers were cut
// differently.
type start struct {
	positions []annals.Position
	entities  map[annals.PersistenceID]annals.Offset
}

// newStart returns where to begin in the slices of positions; from is where a slice begins for which nothing was saved.
func newStart(positions []annals.Position, from annals.Offset) start {
	s := start{positions, map[annals.PersistenceID]annals.Offset{}}
	for i, p := range positions {
		if p.Through == (annals.Offset{}) {
			positions[i].Through = from
		}
		for _, o := range p.Offsets {
			s.entities[o.ID] = o
		}
	}
	return s
}

// covers reports whether the event at o was handled before the worker began.
func (s start) covers(o annals.Offset) bool {
	if s.entities[o.ID].Covers(o) {
		return true
	}
	slice := o.ID.Slice()
	for _, p := range s.positions {
		if p.Slices.Contains(slice) {
			return p.Through.Covers(o)
		}
	}
	return false
}

// handled returns an offset that covers what was handled of an entity before the worker began. It has no id of another entity.
func (s start) handled(id annals.PersistenceID) annals.Offset {
	own := s.entities[id]
	for _, p := range s.positions {
		through := p.Through
		if !p.Slices.Contains(id.Slice()) || through.Compare(own) <= 0 {
			continue
		}
		if id < through.ID { // the number of Through is covered, too
			through.SeqNr++
		}
		if through.ID != id {
			through.ID = ""
		}
		return through
	}
	return own
}

// lowest is the position from which nothing is left out in r: some of what comes after it was handled before.
func (s start) lowest(r annals.SliceRange) annals.Position {
	lowest := annals.Position{Slices: r}
	for i, p := range s.positions {
		if i == 0 || p.Through.Compare(lowest.Through) < 0 {
			lowest.Through = p.Through
		}
		lowest.Offsets = append(lowest.Offsets, p.Offsets...)
	}
	return lowest
}
