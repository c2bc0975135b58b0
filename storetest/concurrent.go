package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/annals-go/annals"
)

var concurrentRecoveryCases = []testCase{
	{id: "RECOVER-20", about: "recoveries beside appends, snapshots, deletes and pruning", needs: needs(events, snapshots), run: func(h *harness) { h.recoverBesideOwner(h.store) }},
	{id: "RECOVER-20-fallback", about: "the same without the store's own recovery", needs: needs(events, snapshots), run: func(h *harness) { h.recoverBesideOwner(withoutAbilities{h.store}) }},
}

// recoverBesideOwner recovers an entity again and again while its owner appends, and a second one saves snapshots,
// deletes what they cover and prunes older ones. Every recovery must be the complete state behind a number that is not
// below what had been acknowledged when it began.
func (h *harness) recoverBesideOwner(s annals.Store) {
	const readers = 2
	id, rounds := h.id(), h.volume(150, 40)
	var acked atomic.Int64
	var reading atomic.Int32
	reading.Store(readers)
	errs := make([]error, 2+readers)
	together(len(errs), func(i int) {
		switch i {
		case 0:
			for round := 0; reading.Load() > 0 && errs[i] == nil; round++ {
				var r annals.Receipt
				if r, errs[i] = h.send(h.ctx, h.store, h.commit(id, annals.SeqNr(acked.Load()), h.batch(1+round%3))); errs[i] == nil {
					acked.Store(int64(r.SeqNr))
				}
			}
		case 1:
			for reading.Load() > 0 && errs[i] == nil {
				if n := annals.SeqNr(acked.Load()); n > 0 {
					errs[i] = h.snapshotAndDelete(id, n)
				}
			}
		default:
			defer reading.Add(-1)
			for round := 0; round < rounds && errs[i] == nil; round++ {
				errs[i] = h.recoverOnce(s, id, &acked)
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		h.Fatalf("recoveries beside the owner: %v", err)
	}
	h.wantRecovered(s, id, annals.SeqNr(acked.Load()))
}

func (h *harness) snapshotAndDelete(id annals.PersistenceID, n annals.SeqNr) error {
	if err := h.store.Snapshots().Save(h.ctx, snapshotOf(id, n)); err != nil {
		return fmt.Errorf("save snapshot %d: got error %w, want none", n, err)
	}
	if err := h.journal().DeleteTo(h.ctx, id, n); err != nil {
		return fmt.Errorf("delete to %d: got error %w, want none", n, err)
	}
	if n > 1 {
		if err := h.store.Snapshots().Delete(h.ctx, id, annals.SnapshotCriteria{MaxSeqNr: n - 1}); err != nil {
			return fmt.Errorf("delete snapshots to %d: got error %w, want none", n-1, err)
		}
	}
	return nil
}

// recoverOnce starts again on ErrTruncated, as hosts do, but not for ever.
func (h *harness) recoverOnce(s annals.Store, id annals.PersistenceID, acked *atomic.Int64) error {
	const tries = 1000
	for range tries {
		before := annals.SeqNr(acked.Load())
		r, last, err := h.recover(s, id)
		if errors.Is(err, annals.ErrTruncated) {
			continue
		}
		if err != nil {
			return fmt.Errorf("recovery behind %d: got error %w, want none but ErrTruncated", before, err)
		}
		if fault := r.fault(last); fault != "" || last < before {
			return fmt.Errorf("recovery: got last number %d, want at least %d; %s (%+v)", last, before, fault, r)
		}
		return nil
	}
	return fmt.Errorf("recovery: got ErrTruncated %d times, want a state", tries)
}
