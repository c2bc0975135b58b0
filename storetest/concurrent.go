package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
)

var concurrentRecoveryCases = []testCase{
	{id: "RECOVER-20", about: "recoveries while others append, save snapshots, delete and prune", needs: needs(events, snapshots), run: func(h *harness) { h.recoverBesideOwner(h.store) }},
	{id: "RECOVER-20-fallback", about: "the same without the store's own recovery", needs: needs(events, snapshots), run: func(h *harness) { h.recoverBesideOwner(withoutAbilities{h.store}) }},
	{id: "RECOVER-21", about: "all snapshots are deleted during a recovery: it is complete, or ErrTruncated", needs: needs(events, snapshots), run: func(h *harness) { h.recoverBesideDeletes(h.store) }},
	{id: "RECOVER-21-fallback", about: "the same without the store's own recovery", needs: needs(events, snapshots), run: func(h *harness) {
		h.recoverBesideDeletes(withoutAbilities{h.store})
		h.recoverBesideLateDelete()
	}},
}

// recoverBesideDeletes appends an event and deletes all snapshots when the recovery has passed on the snapshot. The recovery must not go on
// with event 1 then. In the second round all events but the last are deleted too.
func (h *harness) recoverBesideDeletes(s annals.Store) {
	id := h.id()
	last := h.write(id, 0, 3)
	h.saveSnapshot(snapshotOf(id, last))
	h.wantWhole(id, func() (recovered, annals.SeqNr, error) {
		return h.recoverBeside(s, id, func() {
			last = h.write(id, last, 1)
			h.deleteSnapshots(id, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
		})
	})

	id = h.id()
	h.write(id, 0, 3)
	h.saveSnapshot(snapshotOf(id, 3))
	last = h.write(id, 3, h.volume(2_500, 250))
	h.wantWhole(id, func() (recovered, annals.SeqNr, error) {
		return h.recoverBeside(s, id, func() {
			h.deleteSnapshots(id, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
			h.deleteTo(id, last-1)
		})
	})
}

// recoverBesideLateDelete deletes between the end of the replay and the read of the last number, two steps that only the fallback has.
func (h *harness) recoverBesideLateDelete() {
	id := h.id()
	h.write(id, 0, 3)
	h.saveSnapshot(snapshotOf(id, 3))
	acted := false
	late := &faulty.Store{Store: h.store, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
		if c.Op == "last number" && !acted {
			acted = true
			h.write(id, 3, 1)
			h.deleteSnapshots(id, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
		}
		return run()
	}}
	h.wantWhole(id, func() (recovered, annals.SeqNr, error) { return h.recover(late, id) })
	if !acted {
		h.Error("the recovery never asked for the last number, want it to")
	}
}

// wantWhole checks that a recovery is complete, or that its error is ErrTruncated.
func (h *harness) wantWhole(id annals.PersistenceID, recovery func() (recovered, annals.SeqNr, error)) {
	h.Helper()
	r, last, err := recovery()
	if errors.Is(err, annals.ErrTruncated) {
		return
	}
	if fault := r.fault(last); err != nil || fault != "" {
		h.Errorf("recovery of %q during deletes: got last number %d, error %v, want a complete state or ErrTruncated; %s (%+v)", id, last, err, fault, r)
	}
}

// recoverBesideOwner recovers an entity repeatedly while one goroutine appends and another saves snapshots, deletes the events that they cover
// and prunes older snapshots. Each recovery must be a complete state, no older than what was acknowledged before the recovery began.
func (h *harness) recoverBesideOwner(s annals.Store) {
	const readers = 2
	id, rounds := h.id(), h.volume(150, 20)
	var acked atomic.Int64
	var reading atomic.Int32
	reading.Store(readers)
	errs := make([]error, 2+readers)
	together(len(errs), func(i int) {
		switch i {
		case 0:
			for round := 0; reading.Load() > 0 && errs[i] == nil; round++ {
				runtime.Gosched() // the recoveries may share the processor
				var r annals.Receipt
				if r, errs[i] = h.send(h.ctx, h.store, h.commit(id, annals.SeqNr(acked.Load()), h.batch(1+round%3))); errs[i] == nil {
					acked.Store(int64(r.SeqNr))
				}
			}
		case 1:
			for reading.Load() > 0 && errs[i] == nil {
				runtime.Gosched()
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
		h.Fatalf("recoveries during writes: %v", err)
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

// recoverOnce repeats a recovery that ends with ErrTruncated, up to a limit.
func (h *harness) recoverOnce(s annals.Store, id annals.PersistenceID, acked *atomic.Int64) error {
	const tries = 1000
	for range tries {
		before := annals.SeqNr(acked.Load())
		r, last, err := h.recover(s, id)
		if errors.Is(err, annals.ErrTruncated) {
			continue
		}
		if err != nil {
			return fmt.Errorf("recovery after %d: got error %w, want none but ErrTruncated", before, err)
		}
		if fault := r.fault(last); fault != "" || last < before {
			return fmt.Errorf("recovery: got last number %d, want at least %d; %s (%+v)", last, before, fault, r)
		}
		return nil
	}
	return fmt.Errorf("recovery: got ErrTruncated %d times, want a state", tries)
}
