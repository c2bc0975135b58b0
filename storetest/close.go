package storetest

import (
	"errors"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

var closeCases = []testCase{
	{id: "CLOSE-1", about: "every operation of a closed store is ErrClosed, and Close can be repeated", run: closedStore},
	{id: "CLOSE-2", about: "each append during Close is acknowledged or ErrClosed", needs: needs(events), run: closeDuringAppends},
	{id: "CLOSE-3", about: "writes acknowledged before Close are there when the store is opened again", needs: needs(events, reopen), run: closeThenReopen},
	{id: "CLOSE-4", about: "Close in the body of a loop returns, and the loop ends with ErrClosed at its next item", run: closeInLoops},
	{id: "CLOSE-5", about: "Close in a function of a recovery returns, and the recovery is complete or ErrClosed", needs: needs(events), run: closeInRecovery},
}

func closedStore(h *harness) {
	id := h.id()
	if h.caps.Events {
		h.write(id, 0, 3)
	}
	for range 2 {
		if err := h.store.Close(); err != nil {
			h.Fatalf("Close: got error %v, want none", err)
		}
		for _, op := range h.operations(h.store, id) {
			if op.claimed {
				h.wantNamed(op.run(h.ctx, h.store), annals.ErrClosed, op, "of a closed store")
			}
		}
	}
}

// closeInLoops closes the store in the body of a loop of each kind. Close must not wait for the loop: that would be a deadlock.
func closeInLoops(h *harness) {
	for i, op := range h.operations(h.store, "") {
		if op.loop == nil || !op.claimed {
			continue
		}
		h := h.another()
		id := h.id()
		for range 3 {
			other := h.id()
			if h.caps.Events {
				h.write(other, 0, 1)
			}
			if h.caps.States {
				h.put(other, 0)
			}
			if h.caps.Snapshots {
				h.saveSnapshot(snapshotOf(other, 1))
			}
		}
		if h.caps.Events {
			h.write(id, 0, 3)
		}
		if h.caps.EventQueries {
			h.queryEvents(annals.Filter{}, 6) // wait until all are visible
		}
		op := h.operations(h.store, id)[i]
		items := 0
		err := op.loop(h.ctx, h.store, func() bool {
			if items++; items == 1 {
				h.closeWithin("the body of " + op.name)
			}
			return true
		})
		h.wantNamed(err, annals.ErrClosed, op, "whose body closes the store")
		if items != 1 {
			h.Errorf("%q whose body closes the store: got %d items, want 1", op.name, items)
		}
	}
}

// closeInRecovery closes the store in the caller's functions, during which no call may be under way.
func closeInRecovery(h *harness) {
	id := h.id()
	last := h.write(id, 0, h.volume(2_500, 250))
	closed := false
	var seen annals.SeqNr
	got, err := ability.Recover(h.ctx, h.store, id, func(s annals.Snapshot) error {
		seen = s.SeqNr
		return nil
	}, func(e annals.Event) error {
		if !closed {
			closed = true
			h.closeWithin("the event function of a recovery")
		}
		seen = e.SeqNr
		return nil
	})
	if err == nil && (got != last || seen != last) || err != nil && !errors.Is(err, annals.ErrClosed) {
		h.Errorf("recovery whose event function closes the store: got last number %d and events up to %d, error %v, want %d or ErrClosed", got, seen, err, last)
	}
}

// closeWithin closes the store within code that the store has called, for which Close must not wait.
func (h *harness) closeWithin(code string) {
	h.Helper()
	closed := make(chan error, 1)
	go func() { closed <- h.store.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			h.Errorf("Close in %s: got error %v, want none", code, err)
		}
	case <-time.After(stuck):
		h.Errorf("Close in %s: got no answer within %v", code, stuck)
	}
}

func closeDuringAppends(h *harness) {
	const writers = 4
	ids := make([]annals.PersistenceID, writers)
	for w := range ids {
		ids[w] = h.id()
	}
	errs := make([]error, writers+1)
	acked := make([]annals.SeqNr, writers)
	var once sync.Once
	begun := make(chan struct{}) // closed after the first answer to a writer
	together(writers+1, func(w int) {
		if w == writers {
			<-begun
			errs[w] = h.store.Close()
			return
		}
		for errs[w] == nil {
			var r annals.Receipt
			if r, errs[w] = h.journal().Append(h.ctx, h.commit(ids[w], acked[w], 1)); errs[w] == nil {
				acked[w] = r.SeqNr
			}
			once.Do(func() { close(begun) })
		}
	})
	if errs[writers] != nil {
		h.Errorf("Close during appends: got error %v, want none", errs[writers])
	}
	for w, err := range errs[:writers] {
		if !errors.Is(err, annals.ErrClosed) {
			h.Errorf("append after %d during Close: got error %v, want ErrClosed", acked[w], err)
		}
	}
	if h.cfg.Reopen == nil {
		return
	}
	h.store = h.cfg.Reopen(h, h.store)
	for w, id := range ids {
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, acked[w])
	}
}

func closeThenReopen(h *harness) {
	id := h.id()
	last := h.writeSizes(id, 0, 3, 1)
	h.deleteTo(id, 2)
	h.write(h.id(), 0, 1)
	if err := h.store.Close(); err != nil {
		h.Fatalf("Close: got %v, want nil", err)
	}
	h.store = h.cfg.Reopen(h, h.store)
	h.wantReplay(id, 1, annals.MaxSeqNr, 3, last)
	h.wantLast(id, last)
	h.wantRecoverable(id, last)
	h.write(id, last, 1)
	h.wantReplay(id, 1, annals.MaxSeqNr, 3, last+1)
}

// wantRecoverable checks that a recovery finds the last number.
func (h *harness) wantRecoverable(id annals.PersistenceID, last annals.SeqNr) {
	h.Helper()
	if _, got, err := h.recover(h.store, id); err != nil || got != last {
		h.Errorf("recovery of %q: got last number %d, error %v, want %d", id, got, err, last)
	}
}
