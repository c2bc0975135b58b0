package query

import "github.com/annals-go/annals"

// known is what a follower knows of entities: what has been handed over of each. Entities beyond the floor are all there. Of the others
// the ones of late are there, so that the journal need not be asked for them.
type known struct {
	beyond        map[annals.PersistenceID]entity
	recent, older map[annals.PersistenceID]entity // when recent is full, it becomes older
}

// entity is what has been handed over of one entity.
type entity struct {
	covered annals.Offset // the highest number and the latest time
	last    annals.SeqNr  // the number that was handed over last
}

// generation is how many entities recent has at most.
const generation = 5000

func newKnown(offsets []annals.Offset) known {
	k := known{beyond: map[annals.PersistenceID]entity{}, recent: map[annals.PersistenceID]entity{}}
	for _, o := range offsets {
		k.beyond[o.ID] = entity{o, o.SeqNr}
	}
	return k
}

func (k *known) entity(id annals.PersistenceID) (entity, bool) {
	for _, m := range []map[annals.PersistenceID]entity{k.beyond, k.recent, k.older} {
		if e, ok := m[id]; ok {
			return e, true
		}
	}
	return entity{}, false
}

// covers reports whether o has been handed over, as far as k knows.
func (k *known) covers(o annals.Offset) bool {
	e, ok := k.entity(o.ID)
	return ok && e.covered.Covers(o)
}

// add notes that o has been handed over.
func (k *known) add(o, floor annals.Offset) {
	e, ok := k.entity(o.ID)
	e.last = o.SeqNr
	if ok {
		o.SeqNr = max(o.SeqNr, e.covered.SeqNr)
		if e.covered.Time.After(o.Time) {
			o.Time = e.covered.Time
		}
	}
	e.covered = o
	if o.Compare(floor) > 0 {
		k.beyond[o.ID] = e
		return
	}
	delete(k.beyond, o.ID)
	k.keep(e)
}

// settle moves the entities that are no longer beyond the floor.
func (k *known) settle(floor annals.Offset) {
	for id, e := range k.beyond {
		if e.covered.Compare(floor) <= 0 {
			delete(k.beyond, id)
			k.keep(e)
		}
	}
}

func (k *known) keep(e entity) {
	if len(k.recent) >= generation {
		k.recent, k.older = make(map[annals.PersistenceID]entity, generation), k.recent
	}
	k.recent[e.covered.ID] = e
}
