package operate

import (
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/projection"
)

// handling says what has become of an event in a projection.
type handling struct {
	Projection string `json:"projection"`
	State      string `json:"state"` // "yes", "not yet", or "parked": it waits because its entity is parked
}

func (h handling) String() string { return name(h.Projection) + " (" + h.State + ")" }

// handled adds to each event and state of the tree which of t.projections have handled it: of those that follow it, and have been run in this store.
func (t *tracing) handled() error {
	if caps := t.store.Capabilities(); !caps.Offsets || !caps.States {
		return nil
	}
	slices.Sort(t.projections)
	for _, p := range slices.Compact(t.projections) {
		err := t.handledBy(p)
		if err == nil {
			continue
		}
		if t.ctx.Err() != nil {
			return err
		}
		for _, n := range t.found { // of this one nothing is known
			if n.handling(p) != nil {
				n.HandledBy = n.HandledBy[:len(n.HandledBy)-1]
			}
		}
		t.find(codeOf(err), t.next("projection status", p), "projection %s: %s", name(p), plain(err))
	}
	return nil
}

func (t *tracing) handledBy(name string) error {
	control := projection.NewControl(t.store, name)
	s, err := control.Status(t.ctx, nil)
	if err != nil || len(s.Ranges) == 0 {
		return err
	}
	followed := map[annals.PersistenceID][]*traceNode{}
	var ids []annals.PersistenceID
	for _, n := range t.found {
		e := n.Event
		if s.States != (n.What == "state") || s.Type != "" && s.Type != e.ID.Type() || s.Tag != "" && !slices.Contains(e.Tags, s.Tag) {
			continue
		}
		if followed[e.ID] == nil {
			ids = append(ids, e.ID)
		}
		followed[e.ID] = append(followed[e.ID], n)
		n.HandledBy = append(n.HandledBy, handling{name, "not yet"})
	}
	if len(ids) == 0 {
		return nil
	}
	for some := range slices.Chunk(ids, pageSize) {
		offsets, err := t.store.Offsets().Handled(t.ctx, name, some...)
		if err != nil {
			return err
		}
		for i, id := range some {
			for _, n := range followed[id] {
				if offsets[i].Covers(n.offset) {
					n.handling(name).State = "yes"
				}
			}
		}
	}
	// A parked entity is noted before the position passes its event, so it is read afterwards.
	for e, err := range control.Parked(t.ctx, "") {
		if err != nil {
			return err
		}
		for _, n := range followed[e.ID] {
			waits := n.Event.Number >= e.From || n.offset.Time.After(e.Time) // the entity was forgotten, and began again
			if h := n.handling(name); waits && h.State == "yes" && (e.LateTo == 0 || n.Event.Number <= e.LateTo) {
				h.State = "parked"
			}
		}
	}
	return nil
}

// handling is that of a projection, which comes last; nil: there is none yet.
func (n *traceNode) handling(projection string) *handling {
	if i := len(n.HandledBy) - 1; i >= 0 && n.HandledBy[i].Projection == projection {
		return &n.HandledBy[i]
	}
	return nil
}
