package storetest

import "github.com/annals-go/annals"

var reopenCases = []testCase{
	{id: "REOPEN-1", about: "a second store sees the events, numbers and deletes of the first at once", needs: needs(events, reopen), run: secondStoreSees},
	{id: "REOPEN-2", about: "two stores race for the numbers of one entity: one winner each", needs: needs(events, reopen), run: func(h *harness) { h.oneWinnerOf(h.store, h.second()) }},
	{id: "REOPEN-3", about: "a write to the first store that is sent again to the second is recognised", needs: needs(events, reopen, repeatable), run: sentAgainElsewhere},
	{id: "REOPEN-4", about: "a second store sees snapshots", needs: needs(snapshots, reopen), run: secondStoreSnapshots},
	{id: "REOPEN-5", about: "two stores race for the revisions of one state: one winner each", needs: needs(states, reopen), run: func(h *harness) { h.oneStateWinnerOf(h.store, h.second()) }},
	{id: "REOPEN-6", about: "a paused writer of the first store gets ErrConflict after deletes by the second", needs: needs(events, reopen, fenceAfterDelete), run: pausedElsewhere},
	{id: "REOPEN-7", about: "a second store sees offsets and epochs", needs: needs(offsets, reopen), run: secondStoreOffsets},
	{id: "REOPEN-8", about: "a second store has the same capabilities", needs: needs(reopen), run: func(h *harness) {
		h.wantEqual(h.second().Capabilities(), h.caps, "capabilities of a second store on the same data")
	}},
}

// second is another store on the data of h.store.
func (h *harness) second() annals.Store {
	h.Helper()
	s := h.cfg.Reopen(h, h.store)
	h.Cleanup(func() { _ = s.Close() })
	return s
}

// through runs f with s in the place of h.store.
func (h *harness) through(s annals.Store, f func()) {
	h.Helper()
	first := h.store
	h.store = s
	f()
	h.store = first
}

func secondStoreSees(h *harness) {
	id, second := h.id(), h.second()
	last := h.writeSizes(id, 0, 2, 3)
	h.through(second, func() {
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, last)
		h.wantLast(id, last)
		last = h.write(id, last, 1)
		h.deleteTo(id, 3)
	})
	h.wantReplay(id, 1, annals.MaxSeqNr, 4, last)
	h.wantLast(id, last)
	h.wantStale(id, []annals.SeqNr{last - 1}, "after a write of the second store")
}

func sentAgainElsewhere(h *harness) {
	id, second := h.id(), h.second()
	c := h.commit(id, 0, h.batch(2))
	r := h.append(c)
	h.through(second, func() {
		h.wantRepeated(c, r, "through a second store")
		h.write(id, r.SeqNr, 1)
	})
	h.wantRepeated(c, r, "after a write of the second store")
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, r.SeqNr+1)
}

func secondStoreSnapshots(h *harness) {
	id, second := h.id(), h.second()
	h.saveSnapshot(snapshotOf(id, 5))
	h.through(second, func() {
		h.wantSnapshot(id, annals.SnapshotCriteria{}, 5)
		h.saveSnapshot(snapshotOf(id, 9))
	})
	h.saveSnapshot(snapshotOf(id, 7))
	h.wantSnapshot(id, annals.SnapshotCriteria{}, 9)
}

func pausedElsewhere(h *harness) {
	id, second := h.id(), h.second()
	last := h.writeSizes(id, 0, 2)
	h.through(second, func() {
		last = h.write(id, last, 5)
		h.deleteTo(id, annals.MaxSeqNr)
	})
	h.wantStale(id, []annals.SeqNr{0, 2}, "after writes and a delete of the second store")
	h.wantLast(id, last)
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 0)
}

func secondStoreOffsets(h *harness) {
	o, second := offsetAt("Thing|a", 3, 30), h.second()
	h.saveOffsets("p", o)
	if err := h.saveAs(7, annals.SliceRange{}, o); err != nil {
		h.Fatalf("save with epoch 7: got error %v, want none", err)
	}
	h.through(second, func() {
		h.wantHandled("p", o)
		h.wantKind(h.saveAs(6, annals.SliceRange{}, o), annals.ErrFenced, "save with epoch 6 through a second store after epoch 7")
	})
}
