package storetest

import (
	"errors"

	"github.com/annals-go/annals"
)

// acknowledgementCases check receipts: the write is stored, and the receipt stays the same when the write is sent again.
var acknowledgementCases = []testCase{
	{id: "RECEIPT-1", about: "a commit sent again after a delete of its first events has the same receipt", needs: needs(events, repeatable), run: sentAgainDivided},
	{id: "RECEIPT-2", about: "a commit that the server undoes at its end is not acknowledged", needs: needs(events, undo), run: undoneCommits},
	{id: "RECEIPT-3", about: "a state write that the server undoes at its end is not acknowledged", needs: needs(states, undo), run: undoneStates},
	{id: "RECEIPT-4", about: "a write that was stored ends with success or ErrUnknown", needs: needs(events, loseAnswer), run: storedWrites},
}

func sentAgainDivided(h *harness) {
	const most = 4
	n := h.batch(most)
	for _, later := range []int{0, 2} { // other commits of the entity
		for k := 1; k < n; k++ {
			id := h.id()
			after := h.write(id, 0, 1)
			c := h.commit(id, after, n)
			first := h.append(c)
			last := h.write(id, first.SeqNr, later)
			for to := after + 1; to <= after+annals.SeqNr(k); to += annals.SeqNr(k) - 1 { // in one delete, or in two
				h.deleteTo(id, to)
				h.wantRepeated(c, first, "after a delete that divides it")
				if k == 1 {
					break
				}
			}
			h.wantReplay(id, 1, annals.MaxSeqNr, after+annals.SeqNr(k)+1, last)
		}
	}
}

func undoneCommits(h *harness) {
	for _, n := range []int{1, h.batch(3)} {
		id := h.id()
		after := h.write(id, 0, 1)
		c := h.commit(id, after, n)
		h.cfg.Undo(h, h.store)
		r, err := h.journal().Append(h.ctx, c)
		if last := h.last(id); err == nil && last != r.SeqNr || err != nil && !errors.Is(err, annals.ErrUnknown) && last != after {
			h.Errorf("append of %d events after %d that the server undoes at its end: got %+v, error %v, and the last number is %d", n, after, r, err, last)
		}
		last := h.append(c).SeqNr
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, last)
	}
}

func undoneStates(h *harness) {
	id := h.id()
	w := stateWrite(id, 0)
	h.cfg.Undo(h, h.store)
	r, err := h.store.States().Put(h.ctx, w)
	state, _, failed := h.store.States().Get(h.ctx, id)
	if failed != nil {
		h.Fatalf("get state: got error %v, want none", failed)
	}
	if err == nil && state.Revision != r.SeqNr || err != nil && !errors.Is(err, annals.ErrUnknown) && state.Revision != 0 {
		h.Errorf("put state that the server undoes at its end: got %+v, error %v, and the last revision is %d", r, err, state.Revision)
	}
	if r, err := h.store.States().Put(h.ctx, w); err != nil && !isConflict(err) || err == nil && r.SeqNr != 1 {
		h.Errorf("put state sent again: got %+v, error %v, want revision 1", r, err)
	}
	h.wantState(id, 1)
}

// storedWrites loses the answers to writes of each kind. A kind of error that says that nothing was written must be true.
func storedWrites(h *harness) {
	id, state := h.id(), h.id()
	c := h.commit(id, 0, h.batch(2))
	h.wantTold("append", func() (err error) { _, err = h.journal().Append(h.ctx, c); return err }, func() bool { return h.last(id) > 0 })
	last := h.append(c).SeqNr
	h.wantTold("delete of events", func() error { return h.journal().DeleteTo(h.ctx, id, 1) },
		func() bool { return len(h.replay(id, 1, annals.MaxSeqNr)) < int(last) })
	if h.caps.Snapshots && !h.caps.Limits.FirstSnapshot {
		h.wantTold("save of a snapshot", func() error { return h.store.Snapshots().Save(h.ctx, snapshotOf(id, last)) }, func() bool {
			_, ok, err := h.store.Snapshots().Latest(h.ctx, id, annals.SnapshotCriteria{})
			return h.succeeds(err) && ok
		})
	}
	if h.caps.States {
		w := stateWrite(state, 0)
		h.wantTold("put of a state", func() (err error) { _, err = h.store.States().Put(h.ctx, w); return err }, func() bool {
			_, ok, err := h.store.States().Get(h.ctx, state)
			return h.succeeds(err) && ok
		})
	}
	if h.caps.Offsets {
		o := offsetAt(id, 1, 10)
		h.wantTold("save of an offset", func() error {
			return h.store.Offsets().Save(h.ctx, annals.Progress{Projection: "p", Offsets: []annals.Offset{o}})
		}, func() bool { return h.handledOf("p", id) != (annals.Offset{}) })
	}
}

// wantTold loses the answer to a write, and checks that its error tells what stored says afterwards.
func (h *harness) wantTold(what string, write func() error, stored func() bool) {
	h.Helper()
	end := h.cfg.LoseAnswer(h, h.store)
	err := write()
	end()
	if is := stored(); is != (err == nil) && !errors.Is(err, annals.ErrUnknown) {
		h.Errorf("%s whose answer got lost: got error %v, and it was stored: %v; want ErrUnknown or the truth", what, err, is)
	}
}

// succeeds ends the case when err is not nil.
func (h *harness) succeeds(err error) bool {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
	return true
}
