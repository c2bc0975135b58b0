package storetest

import (
	"context"
	"errors"

	"github.com/annals-go/annals"
)

var stateRetryCases = []testCase{
	{id: "STATE-20", about: "a put or delete that is sent again is recognised", needs: needs(states, idempotentState, deletesStates), run: stateSentAgain},
	{id: "STATE-21", about: "a write that is sent again after up to three others is recognised", needs: needs(states, idempotentState, deletesStates), run: stateSentAgainLater},
	{id: "STATE-22", about: "a write that is sent again after four others is ErrUnknown, never a conflict", needs: needs(states, idempotentState, deletesStates), run: stateForgotten},
	{id: "STATE-23", about: "a write that was never stored is a conflict within four revisions, and ErrUnknown after them", needs: needs(states, idempotentState, deletesStates), run: stateNeverLanded},
	{id: "STATE-24", about: "duplicates at the same time are one write", needs: needs(states, idempotentState), run: stateDuplicatesInFlight},
	{id: "STATE-25", about: "the zero WriteID is never recognised", needs: needs(states), run: stateZeroWriteID},
	{id: "STATE-26", about: "a repeated write with an event stores the event once", needs: needs(states, idempotentState, stateEvents, events), run: stateEventSentAgain},
	{id: "STATE-27", about: "without IdempotentState a write that is sent again is never stored twice", needs: needs(states), unless: needs(idempotentState), run: stateNeverDoubled},
	{id: "STATE-28", about: "with FirstTry an old write is always a conflict, and a stored one is recognised", needs: needs(states, idempotentState, deletesStates), run: stateFirstTry},
}

// writeState is Put or Delete.
type writeState func(ctx context.Context, w annals.StateWrite) (annals.Receipt, error)

// wantStateRepeated checks that w, which was stored as revision After+1, is recognised when it is sent again.
func (h *harness) wantStateRepeated(write writeState, w annals.StateWrite, when string) annals.Receipt {
	h.Helper()
	r, err := write(h.ctx, w)
	if err != nil || r.SeqNr != w.After+1 || !r.Repeated {
		h.Errorf("state write after %d sent again %s: got %+v, error %v, want revision %d, Repeated", w.After, when, r, err, w.After+1)
	}
	return r
}

func stateSentAgain(h *harness) {
	id, s := h.id(), h.store.States()
	w := stateWrite(id, 0)
	first := h.putState(w)
	for range 2 {
		if r := h.wantStateRepeated(s.Put, w, "at once"); !r.Time.Equal(first.Time) {
			h.Errorf("time of a repeated state write: got %v, want %v", r.Time, first.Time)
		}
	}
	h.wantState(id, 1)
	d := annals.StateWrite{ID: id, After: 1, WriteID: annals.NewWriteID()}
	if r, err := s.Delete(h.ctx, d); err != nil || r.SeqNr != 2 || r.Repeated {
		h.Fatalf("delete state after 1: got %+v, error %v, want revision 2", r, err)
	}
	h.wantStateRepeated(s.Delete, d, "at once")
	h.wantStateRepeated(s.Put, w, "after a delete")
	h.wantNoState(id, 2)
}

// history writes n revisions, every third one a delete, and returns the writes.
func (h *harness) history(id annals.PersistenceID, n int) (ws []annals.StateWrite, writes []writeState) {
	h.Helper()
	for after := range annals.SeqNr(n) {
		w, write := stateWrite(id, after), writeState(h.store.States().Put)
		if after%3 == 2 {
			write = h.store.States().Delete
		}
		if r, err := write(h.ctx, w); err != nil || r.SeqNr != after+1 {
			h.Fatalf("state write after %d: got %+v, error %v, want revision %d", after, r, err, after+1)
		}
		ws, writes = append(ws, w), append(writes, write)
	}
	return ws, writes
}

func stateSentAgainLater(h *harness) {
	for n := 1; n <= 8; n++ {
		id := h.id()
		ws, writes := h.history(id, n)
		for i := max(n-4, 0); i < n; i++ {
			h.wantStateRepeated(writes[i], ws[i], "after later writes")
		}
		s, _, err := h.store.States().Get(h.ctx, id)
		if err != nil || s.Revision != annals.SeqNr(n) {
			h.Errorf("state after %d writes, four of them sent again: got revision %d, error %v, want %d", n, s.Revision, err, n)
		}
	}
}

func stateForgotten(h *harness) {
	id := h.id()
	ws, writes := h.history(id, 11)
	for i, w := range ws[:7] {
		r, err := writes[i](h.ctx, w)
		h.wantKind(err, annals.ErrUnknown, "state write after %d sent again at revision 11 (receipt %+v)", i, r)
		if isConflict(err) {
			h.Errorf("state write after %d sent again at revision 11: got a conflict, want an unknown outcome only", i)
		}
	}
	h.wantState(id, 11)
}

func stateNeverLanded(h *harness) {
	id := h.id()
	h.history(id, 10)
	for after := range annals.SeqNr(10) {
		want := annals.ErrConflict
		if after+1 < 10-3 {
			want = annals.ErrUnknown
		}
		_, err := h.store.States().Put(h.ctx, stateWrite(id, after))
		h.wantKind(err, want, "put state after %d at revision 10, with a WriteID never seen", after)
		_, err = h.store.States().Delete(h.ctx, stateWrite(id, after))
		h.wantKind(err, want, "delete state after %d at revision 10, with a WriteID never seen", after)
	}
	h.wantState(id, 10)
}

func stateFirstTry(h *harness) {
	id := h.id()
	ws, writes := h.history(id, 10)
	for after := range annals.SeqNr(10) {
		w := stateWrite(id, after)
		w.FirstTry = true
		_, err := h.store.States().Put(h.ctx, w)
		h.wantKind(err, annals.ErrConflict, "put state after %d at revision 10 as a first try", after)
		_, err = h.store.States().Delete(h.ctx, w)
		h.wantKind(err, annals.ErrConflict, "delete state after %d at revision 10 as a first try", after)
	}
	ws[9].FirstTry = true // a duplicate of the request itself
	h.wantStateRepeated(writes[9], ws[9], "as a first try")
	h.wantState(id, 10)
}

func stateDuplicatesInFlight(h *harness) {
	const copies = 8
	id := h.id()
	for after := range annals.SeqNr(h.volume(15, 5)) {
		w := stateWrite(id, after)
		receipts, errs := make([]annals.Receipt, copies), make([]error, copies)
		together(copies, func(i int) { receipts[i], errs[i] = h.store.States().Put(h.ctx, w) })
		fresh := 0
		for i, r := range receipts {
			if errs[i] != nil || r.SeqNr != after+1 {
				h.Fatalf("duplicate %d of a state write after %d: got %+v, error %v, want revision %d", i, after, r, errs[i], after+1)
			}
			if !r.Repeated {
				fresh++
			}
		}
		if fresh > 1 {
			h.Errorf("%d duplicates of a state write after %d: got %d that were not Repeated, want at most 1", copies, after, fresh)
		}
		h.wantState(id, after+1)
	}
}

func stateZeroWriteID(h *harness) {
	id := h.id()
	for after := range annals.SeqNr(7) {
		w := stateWrite(id, after)
		w.WriteID = annals.WriteID{}
		h.putState(w)
		for old := range after + 1 {
			w.After = old
			r, err := h.store.States().Put(h.ctx, w)
			h.wantKind(err, annals.ErrConflict, "put state after %d at revision %d without a WriteID (receipt %+v)", old, after+1, r)
		}
	}
	h.wantState(id, 7)
}

func stateEventSentAgain(h *harness) {
	id := h.id()
	var ws []annals.StateWrite
	for after := range annals.SeqNr(4) {
		ws = append(ws, withEvent(stateWrite(id, after)))
		h.putState(ws[after])
	}
	for _, w := range ws {
		h.wantStateRepeated(h.store.States().Put, w, "with its event")
	}
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 4)
	h.wantState(id, 4)
}

func stateNeverDoubled(h *harness) {
	w := stateWrite(h.id(), 0)
	h.putState(w)
	r, err := h.store.States().Put(h.ctx, w)
	if !isConflict(err) && !errors.Is(err, annals.ErrUnknown) && (err != nil || r.SeqNr != 1) {
		h.Errorf("state write after 0 sent again: got %+v, error %v, want a conflict, an unknown outcome or the same revision", r, err)
	}
	h.wantState(w.ID, 1)
}
