package storetest

import (
	"errors"
	"math"

	"github.com/annals-go/annals"
)

var deleteCases = []testCase{
	{id: "DELETE-1", about: "a delete to the last number or above deletes all events, and the next number follows the last one, repeatedly", needs: needs(events), run: numbersGoOn},
	{id: "DELETE-3", about: "a delete of an entity never written writes nothing", needs: needs(events), own: true, run: deleteUnknown},
	{id: "DELETE-4", about: "deletes can be repeated, and a later delete to a smaller number restores nothing", needs: needs(events), run: repeatedDeletes},
	{id: "DELETE-6", about: "concurrent deletes leave the events after the highest number deleted", needs: needs(events), run: concurrentDeletes},
	{id: "DELETE-7", about: "deletes to each number within single events and batches", needs: needs(events), run: deleteEverywhere},
	{id: "DELETE-8", about: "the last number never goes down during deletes", needs: needs(events), run: lastNeverGoesDown},
	{id: "DELETE-9", about: "thousands of events are deleted", needs: needs(events), run: deleteThousands},
}

func numbersGoOn(h *harness) {
	id := h.id()
	var last annals.SeqNr
	for i, above := range []annals.SeqNr{0, 1, 1000, annals.MaxSeqNr - 100, 0} {
		first := last + 1
		last = h.writeSizes(id, last, 1+i, 2)
		h.wantReplay(id, 1, annals.MaxSeqNr, first, last)
		h.deleteTo(id, last+above)
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, 0)
		h.wantLast(id, last)
	}
}

func deleteUnknown(h *harness) {
	id := h.id()
	h.deleteTo(id, 5)
	h.deleteTo(id, annals.MaxSeqNr)
	h.wantLast(id, 0)
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 0)
	if h.caps.IDQueries {
		ids, err := collect(h.store.Query().IDs(h.ctx, "", ""))
		if err != nil || len(ids) > 0 {
			h.Errorf("ids after a delete of an entity never written: got %v, error %v, want none", ids, err)
		}
	}
	h.write(id, 0, 2)
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 2)
}

func repeatedDeletes(h *harness) {
	id := h.id()
	h.writeSizes(id, 0, 4, 4, 1, 1)
	var deleted annals.SeqNr
	for _, to := range []annals.SeqNr{2, 2, 1, -1, 6, 3, math.MinInt64, 6, 9, 4, 9} {
		h.deleteTo(id, to)
		deleted = max(deleted, to)
		h.wantReplay(id, 1, annals.MaxSeqNr, deleted+1, 10)
		h.wantLast(id, 10)
	}
}

func concurrentDeletes(h *harness) {
	for range h.volume(10, 3) {
		id := h.id()
		h.writeSizes(id, 0, 3, 5, 1, 7, 1, 1, 2)
		errs := make([]error, 8)
		together(len(errs), func(i int) { errs[i] = h.journal().DeleteTo(h.ctx, id, annals.SeqNr(1+2*i)) })
		if err := errors.Join(errs...); err != nil {
			h.Fatalf("eight concurrent deletes: got error %v, want none", err)
		}
		h.wantReplay(id, 1, annals.MaxSeqNr, 16, 20)
		h.wantLast(id, 20)
	}
}

func deleteEverywhere(h *harness) {
	for to := range annals.SeqNr(11) {
		id := h.id()
		h.writeSizes(id, 0, 1, 3, 1, 2, 3)
		h.deleteTo(id, to)
		h.wantReplay(id, 1, annals.MaxSeqNr, to+1, 10)
		h.wantReplay(id, 4, 6, max(to+1, 4), 6)
		h.wantLast(id, 10)
		h.write(id, 10, 1)
		h.wantReplay(id, 1, annals.MaxSeqNr, to+1, 11)
	}
}

func lastNeverGoesDown(h *harness) {
	id, rounds := h.id(), annals.SeqNr(h.volume(80, 20))
	done := make(chan struct{})
	errs := make([]error, 3)
	var lower [2]annals.SeqNr
	together(3, func(i int) {
		switch i {
		case 0:
			defer close(done)
			for after := range rounds {
				if _, errs[0] = h.send(h.ctx, h.store, h.commit(id, after, 1)); errs[0] != nil {
					return
				}
			}
		case 1:
			for running(done) && errs[1] == nil {
				errs[1] = h.journal().DeleteTo(h.ctx, id, annals.MaxSeqNr)
			}
		case 2:
			var seen annals.SeqNr
			for running(done) && errs[2] == nil {
				var n annals.SeqNr
				if n, errs[2] = h.journal().LastSeqNr(h.ctx, id); n < seen && errs[2] == nil {
					lower = [2]annals.SeqNr{seen, n}
					return
				}
				seen = n
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		h.Fatalf("append, delete and last number side by side: got error %v, want none", err)
	}
	if lower != ([2]annals.SeqNr{}) {
		h.Errorf("last number: got %d after %d, want it never to go down", lower[1], lower[0])
	}
	h.wantLast(id, rounds)
}

// running is false once done is closed.
func running(done <-chan struct{}) bool {
	select {
	case <-done:
		return false
	default:
		return true
	}
}

func deleteThousands(h *harness) {
	id := h.id()
	last := h.write(id, 0, h.volume(3_100, 250))
	h.deleteTo(id, last-10)
	h.wantReplay(id, 1, annals.MaxSeqNr, last-9, last)
	h.deleteTo(id, last)
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 0)
	h.wantLast(id, last)
	h.write(id, last, 1)
	h.wantReplay(id, 1, annals.MaxSeqNr, last+1, last+1)
}
