package query

import (
	"time"

	"github.com/annals-go/annals"
)

// handedOver is what a Feed knows of entities: what has been handed over of each. Entities beyond the floor are all there. Of the others
// the ones of late are there, so that the journal need not be asked for them.
type handedOver struct {
	beyond        map[annals.PersistenceID]entity
	recent, older map[annals.PersistenceID]entity // when recent is full, it becomes older
	// since says of which time on all entities are there: what was handed over after it is known.
	since                annals.Offset
	recentFrom, recentTo annals.Offset // of the first entity in recent, and of the last in the order of offsets
	olderTo              annals.Offset
	span                 time.Duration // that recent has at least, if that is no more than most entities
	most                 int
}

// entity is what has been handed over of one entity. An entity that was forgotten begins again: it has lower numbers at later times.
type entity struct {
	covered annals.Offset // the highest number and the latest time
	before  annals.Offset // the same, before the entity began again
	last    annals.SeqNr  // the number that was handed over last
}

// generation is how many entities recent has at least when it becomes older.
const generation = 5000

// newHandedOver returns what is known at the position from. Of what is handed over later, all is known for span, if that is no more than most
// entities.
func newHandedOver(from annals.Position, span time.Duration, most int) handedOver {
	h := handedOver{beyond: map[annals.PersistenceID]entity{}, recent: map[annals.PersistenceID]entity{}, since: from.Through, span: span, most: most}
	for _, o := range from.Offsets {
		h.beyond[o.ID] = entity{covered: o, last: o.SeqNr}
	}
	return h
}

func (h *handedOver) entity(id annals.PersistenceID) (entity, bool) {
	for _, m := range []map[annals.PersistenceID]entity{h.beyond, h.recent, h.older} {
		if e, ok := m[id]; ok {
			return e, true
		}
	}
	return entity{}, false
}

// covers reports whether o has been handed over, as far as h knows.
func (h *handedOver) covers(o annals.Offset) bool {
	e, ok := h.entity(o.ID)
	return ok && (e.covered.Covers(o) || e.before.ID == o.ID && e.before.Covers(o))
}

// add notes that o has been handed over.
func (h *handedOver) add(o, floor annals.Offset) {
	e, ok := h.entity(o.ID)
	e.last = o.SeqNr
	switch {
	case ok && o.SeqNr <= e.covered.SeqNr && o.Time.After(e.covered.Time):
		e.before, e.covered = union(e.before, e.covered), o
	case ok:
		e.covered = union(e.covered, o)
	default:
		e.covered = o
	}
	if e.covered.Compare(floor) > 0 {
		h.beyond[o.ID] = e
		return
	}
	delete(h.beyond, o.ID)
	h.keep(e)
}

// union covers what a covers and what b, an offset of the same entity, covers.
func union(a, b annals.Offset) annals.Offset {
	b.SeqNr = max(a.SeqNr, b.SeqNr)
	if a.Time.After(b.Time) {
		b.Time = a.Time
	}
	return b
}

// settle moves the entities that are no longer beyond the floor.
func (h *handedOver) settle(floor annals.Offset) {
	for id, e := range h.beyond {
		if e.covered.Compare(floor) <= 0 {
			delete(h.beyond, id)
			h.keep(e)
		}
	}
}

func (h *handedOver) keep(e entity) {
	o := e.covered
	if n := len(h.recent); n >= generation && (n >= h.most/2 || o.Time.Sub(h.recentFrom.Time) >= h.span) {
		h.recent, h.older = make(map[annals.PersistenceID]entity, generation), h.recent
		h.since, h.olderTo = later(h.since, h.olderTo), h.recentTo
	}
	if len(h.recent) == 0 {
		h.recentFrom, h.recentTo = o, o
	}
	h.recentTo = later(h.recentTo, o)
	h.recent[o.ID] = e
}

func later(a, b annals.Offset) annals.Offset {
	if a.Compare(b) > 0 {
		return a
	}
	return b
}
