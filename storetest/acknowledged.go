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
