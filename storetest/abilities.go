package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// abilityCases are about the optional interfaces of a store.
var abilityCases = []testCase{
	{id: "SKIP-1", about: "an entity starts after numbers that were deleted elsewhere", needs: needs(events, skips), run: skipTo},
	{id: "SKIP-2", about: "an entity with another last number does not skip", needs: needs(events, skips), run: skipWritten},
	{id: "SKIP-7", about: "an entity is deleted with a skip, and a writer that knew it is refused", needs: needs(events, skips), run: skipDeleted},
	{id: "SKIP-8", about: "of racing skips to different numbers, and an append, after the same number one is stored", needs: needs(events, skips), run: racingSkips},
	{id: "SKIP-3", about: "a number that cannot be skipped to is ErrInvalid", needs: needs(events, skips), run: skipInvalid},
	{id: "SKIP-4", about: "a state starts at the revision that it had elsewhere", needs: needs(states, skipsStates, deletesStates), run: skipStateTo},
	{id: "SKIP-5", about: "a state that has been written, deleted or not, cannot skip", needs: needs(states, skipsStates, deletesStates), run: skipWrittenState},
	{id: "SKIP-6", about: "a revision that cannot be skipped to is ErrInvalid", needs: needs(states, skipsStates), run: skipStateInvalid},
	{id: "WATCH-1", about: "every write is signalled to a watch", needs: needs(events, watcher), run: watched},
	{id: "WATCH-2", about: "the channel is closed when the context ends", needs: needs(events, watcher), run: watchEnds},
}

// able is the ability A of the store.
func able[A any](h *harness) A {
	h.Helper()
	a, err := ability.Of[A](h.store)
	if err != nil {
		h.Fatalf("an ability of the store: got error %v, want none", err)
	}
	return a
}

func skipTo(h *harness) {
	id, s := h.id(), able[ability.Skipper](h)
	if err := s.SkipTo(h.ctx, id, 0, 41); err != nil {
		h.Fatalf("skip to 41: got error %v, want none", err)
	}
	h.wantLast(id, 41)
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 0)
	h.wantRecoverable(id, 41)
	_, err := h.journal().Append(h.ctx, h.commit(id, 0, 1))
	h.wantKind(err, annals.ErrConflict, "append with After 0 to an entity that skipped to 41")
	last := h.write(id, 41, 2)
	h.wantReplay(id, 1, annals.MaxSeqNr, 42, last)
	h.wantLast(id, last)
}

func skipWritten(h *harness) {
	id, s := h.id(), able[ability.Skipper](h)
	h.write(id, 0, 2)
	h.wantKind(s.SkipTo(h.ctx, id, 0, 10), annals.ErrConflict, "skip to 10 of an entity with two events")
	for _, after := range []annals.SeqNr{1, 3} {
		h.wantKind(s.SkipTo(h.ctx, id, after, 10), annals.ErrConflict, "skip to 10, after %d, of an entity with two events", after)
	}
	for after := range annals.SeqNr(2) { // as when an event is stored after the last number was read
		h.wantKind(s.SkipTo(h.ctx, id, after, 2), annals.ErrConflict, "skip to 2, after %d, of an entity with two events", after)
	}
	h.wantLast(id, 2)
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 2)
}

func skipDeleted(h *harness) {
	for _, n := range []annals.SeqNr{3, 4, 41} {
		id, s := h.id(), able[ability.Skipper](h)
		h.write(id, h.write(id, 0, 1), 1)
		if n == 4 {
			h.deleteTo(id, annals.MaxSeqNr)
		}
		for _, after := range []annals.SeqNr{0, 1} {
			h.wantKind(s.SkipTo(h.ctx, id, after, n), annals.ErrConflict, "skip to %d, after %d, of an entity with two events", n, after)
		}
		for range 2 {
			if err := s.SkipTo(h.ctx, id, 2, n); err != nil {
				h.Fatalf("skip to %d of an entity with two events: got error %v, want none", n, err)
			}
		}
		h.wantKind(s.SkipTo(h.ctx, id, 2, n+1), annals.ErrConflict, "skip to %d, after 2, when the last number is %d", n+1, n)
		h.wantLast(id, n)
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, 0)
		h.wantRecoverable(id, n)
		_, err := h.journal().Append(h.ctx, h.commit(id, 2, 1))
		h.wantKind(err, annals.ErrConflict, "append with After 2 to an entity that skipped to %d", n)
		last := h.write(id, n, 2)
		h.wantReplay(id, 1, annals.MaxSeqNr, n+1, last)
		h.wantLast(id, last)
		h.deleteTo(id, annals.MaxSeqNr)
		h.wantLast(id, last)
		if err := s.SkipTo(h.ctx, id, last, last+1); err != nil {
			h.Fatalf("skip to %d again: got error %v, want none", last+1, err)
		}
		h.wantLast(id, last+1)
	}
}

func racingSkips(h *harness) {
	s := able[ability.Skipper](h)
	for range h.volume(20, 5) {
		id := h.id()
		errs := make([]error, 4)
		together(len(errs), func(i int) {
			if i == 0 {
				_, errs[i] = h.send(h.ctx, h.store, h.commit(id, 0, 1))
				return
			}
			errs[i] = s.SkipTo(h.ctx, id, 0, annals.SeqNr(2*i+1))
		})
		var winners []annals.SeqNr
		for i, err := range errs {
			switch {
			case err == nil:
				winners = append(winners, annals.SeqNr(2*i+1))
			case !isConflict(err):
				h.Errorf("skip to %d beside others: got error %v, want none or a conflict", 2*i+1, err)
			}
		}
		if len(winners) != 1 {
			h.Fatalf("skips beside each other and an append: the last numbers %d were stored after 0, want one", winners)
		}
		h.wantLast(id, winners[0])
		h.write(id, winners[0], 1)
	}
}

// skipNumbers are the numbers that cannot be skipped to.
var skipNumbers = []annals.SeqNr{-1, 0, annals.MaxSeqNr}

func skipInvalid(h *harness) {
	id, s := h.id(), able[ability.Skipper](h)
	op := operation{name: "skip", id: id}
	for _, n := range skipNumbers {
		h.wantNamed(s.SkipTo(h.ctx, id, 0, n), annals.ErrInvalid, op, fmt.Sprintf("to %d", n))
	}
	h.wantKind(s.SkipTo(h.ctx, "", 0, 5), annals.ErrInvalid, "skip without an id")
	h.wantLast(id, 0)
}

func skipStateTo(h *harness) {
	id, s := h.id(), able[ability.StateSkipper](h)
	if err := s.SkipStateTo(h.ctx, id, 41); err != nil {
		h.Fatalf("skip state to 41: got error %v, want none", err)
	}
	h.wantNoState(id, 41)
	for _, after := range []annals.SeqNr{0, 40, 42} {
		w := stateWrite(id, after)
		w.FirstTry = true
		_, err := h.store.States().Put(h.ctx, w)
		h.wantKind(err, annals.ErrConflict, "put state with After %d when the state skipped to 41", after)
	}
	h.wantNoState(id, 41)
	h.put(id, 41)
	h.wantState(id, 42)
	h.deleteState(id, 42)
	h.wantNoState(id, 43)
	other := h.id() // no effect on other entities
	h.wantNoState(other, 0)
	if h.caps.StateQueries {
		if err := s.SkipStateTo(h.ctx, other, 7); err != nil {
			h.Fatalf("skip state to 7: got error %v, want none", err)
		}
		got := map[annals.PersistenceID]annals.SeqNr{}
		for _, s := range h.queryStates(annals.Filter{}, 2) {
			if got[s.ID] = s.Revision; !s.Deleted || s.Time.IsZero() {
				h.Errorf("query states after a skip: got revision %d of %q at %v, deleted %v, want a tombstone", s.Revision, s.ID, s.Time, s.Deleted)
			}
		}
		h.wantEqual(got, map[annals.PersistenceID]annals.SeqNr{id: 43, other: 7}, "query states after a skip")
	}
}

func skipWrittenState(h *harness) {
	s := able[ability.StateSkipper](h)
	op := operation{name: "skip state", id: h.id()}
	h.put(op.id, 0)
	h.wantNamed(s.SkipStateTo(h.ctx, op.id, 10), annals.ErrConflict, op, "to 10 of a state of revision 1")
	h.wantState(op.id, 1)
	h.deleteState(op.id, 1)
	h.wantNamed(s.SkipStateTo(h.ctx, op.id, 10), annals.ErrConflict, op, "to 10 of a deleted state")
	h.wantNoState(op.id, 2)
}

func skipStateInvalid(h *harness) {
	id, s := h.id(), able[ability.StateSkipper](h)
	op := operation{name: "skip state", id: id}
	for _, n := range skipNumbers {
		h.wantNamed(s.SkipStateTo(h.ctx, id, n), annals.ErrInvalid, op, fmt.Sprintf("to %d", n))
	}
	h.wantKind(s.SkipStateTo(h.ctx, "", 5), annals.ErrInvalid, "skip state without an id")
	h.wantNoState(id, 0)
}

// watched waits for a signal of every write, with its slice; there may be more signals than writes.
func watched(h *harness) {
	ctx, cancel := context.WithTimeout(h.ctx, 30*time.Second)
	defer cancel()
	id := h.id()
	slice := annals.SliceRange{From: id.Slice(), To: id.Slice() + 1}
	var watches []<-chan annals.SliceRange
	for _, f := range []annals.Filter{{}, {Type: id.Type(), Slices: slice}} {
		signals, err := able[ability.Watcher](h).Watch(ctx, f)
		if err != nil {
			h.Fatalf("watch: got error %v, want none", err)
		}
		watches = append(watches, signals)
	}
	signalled := func(what string, n annals.SeqNr) {
		h.Helper()
		for _, signals := range watches {
			for written, open := <-signals; !open || !written.Contains(id.Slice()); written, open = <-signals {
				if !open {
					h.Fatalf("watch: got no signal of %s %d, with its slice, within 30 seconds, want one", what, n)
				}
			}
		}
	}
	for after := range annals.SeqNr(3) {
		h.append(h.commit(id, after, 1))
		signalled("event", after+1)
		if h.caps.StateQueries {
			h.put(id, after)
			signalled("revision", after+1)
		}
	}
}

func watchEnds(h *harness) {
	ctx, cancel := context.WithCancel(h.ctx)
	signals, err := able[ability.Watcher](h).Watch(ctx, annals.Filter{})
	if err != nil {
		h.Fatalf("watch: got error %v, want none", err)
	}
	cancel()
	limit, stop := context.WithTimeout(h.ctx, 30*time.Second)
	defer stop()
	for {
		select {
		case _, open := <-signals:
			if !open {
				return
			}
		case <-limit.Done():
			h.Fatalf("watch whose context ended: got an open channel after 30 seconds, want it closed")
		}
	}
}
