package storetest

import (
	"fmt"

	"github.com/annals-go/annals"
)

// beginsAgainInOneSave saves what was handled of an entity before it was forgotten and after it has begun again with a commit, whose events
// have the same time.
func beginsAgainInOneSave(h *harness) {
	id := annals.PersistenceID("Thing|a")
	once := func(os ...annals.Offset) error {
		return h.store.Offsets().Save(h.ctx, annals.Progress{Projection: "p", Offsets: os, Once: true})
	}
	for i, before := range [][]annals.Offset{{}, {offsetAt(id, 4, 10)}} {
		id = annals.PersistenceID(fmt.Sprintf("Thing|%d", i))
		for j := range before {
			before[j].ID = id
		}
		h.saveOffsets("p", before...)
		if err := once(offsetAt(id, 5, 20), offsetAt(id, 6, 21), offsetAt(id, 1, 50), offsetAt(id, 2, 50)); err != nil {
			h.Fatalf("save events of two lives of an entity once: got error %v, want none", err)
		}
		h.wantHandled("p", offsetAt(id, 2, 50))
		h.wantKind(once(offsetAt(id, 2, 50)), annals.ErrConflict, "save an event of the second life once more")
		for n := annals.SeqNr(3); n <= 7; n++ {
			if err := once(offsetAt(id, n, 50)); err != nil {
				h.Errorf("save event %d of the second life: got error %v, want none", n, err)
			}
		}
		h.wantHandled("p", offsetAt(id, 7, 50))
	}
}

func offsetsForgotten(h *harness) {
	s := sameSlice
	a, b, c, elsewhere := offsetAt(s[0], 5, 50), offsetAt(s[1], 4, 40), offsetAt(s[2], 3, 45), offsetAt("p92", 6, 60)
	h.saveProgress(annals.Progress{Through: through(20), Epoch: 3, Offsets: []annals.Offset{a, b, c, elsewhere}})
	h.saveOffsets("p-2", a)
	forget := func(ids ...annals.PersistenceID) {
		h.Helper()
		if err := h.store.Offsets().Forget(h.ctx, "p", ids...); err != nil {
			h.Fatalf("forget the offsets of %q: got error %v, want none", ids, err)
		}
	}
	want := func(offsets ...annals.Offset) {
		h.Helper()
		all := sliceRange(0, annals.SliceCount)
		h.wantLoaded("p", all, annals.Position{Slices: all, Epoch: 3, Through: through(20), Offsets: offsets})
	}
	forget()
	want(b, c, a, elsewhere)
	for range 2 {
		forget(a.ID, "Thing|unknown") // a has the newest offset of its slice
		want(b, c, elsewhere)
		if got := h.handledOf("p", a.ID); got.Compare(through(20)) != 0 {
			h.Errorf("offset of %q after it was forgotten: got %+v, want %+v", a.ID, got, through(20))
		}
	}
	h.wantHandled("p-2", a)
	forget(b.ID, elsewhere.ID)
	want(c)
	forget(c.ID)
	want()
	for _, ids := range [][]annals.PersistenceID{{""}, {a.ID, "\xff"}} {
		h.wantKind(h.store.Offsets().Forget(h.ctx, "p", ids...), annals.ErrInvalid, "forget the offsets of %q", ids)
	}
	h.wantKind(h.store.Offsets().Forget(h.ctx, "", a.ID), annals.ErrInvalid, "forget an offset without a projection")

	// The entity begins again, at a time after Through.
	again := offsetAt(a.ID, 1, 55)
	if err := h.store.Offsets().Save(h.ctx, annals.Progress{Projection: "p", Epoch: 3, Offsets: []annals.Offset{again}, Once: true}); err != nil {
		h.Errorf("save an event of an entity that begins again: got error %v, want none", err)
	}
	want(again)
}
