package storetest

import (
	"errors"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// forgetCases are about ability.Forgetter.
var forgetCases = []testCase{
	{id: "FORGET-1", about: "an entity whose events are deleted is forgotten and begins again", needs: needs(events, forgets), run: forgetEvents},
	{id: "FORGET-2", about: "an entity whose state is deleted is forgotten and begins again", needs: needs(states, forgets, deletesStates), run: forgetState},
	{id: "FORGET-3", about: "what was deleted less than Age ago is not forgotten", needs: needs(events, forgets), run: forgetYoung},
	{id: "FORGET-4", about: "an entity with an event is a conflict", needs: needs(events, forgets), run: forgetWithEvents},
	{id: "FORGET-5", about: "an entity with a snapshot is a conflict", needs: needs(events, snapshots, forgets), run: forgetWithSnapshot},
	{id: "FORGET-6", about: "an entity with a state is a conflict", needs: needs(states, forgets, deletesStates), run: forgetWithState},
	{id: "FORGET-7", about: "an entity never written is forgotten, again and again", needs: needs(forgets), run: forgetUnknown},
	{id: "FORGET-8", about: "a dry run has the same answer and writes nothing", needs: needs(events, forgets), run: forgetDry},
	{id: "FORGET-9", about: "a negative age or an invalid id is ErrInvalid", needs: needs(forgets), run: forgetInvalid},
	{id: "FORGET-10", about: "a context that has ended forgets nothing", needs: needs(events, forgets), run: forgetEndedContext},
	{id: "FORGET-11", about: "a forgotten entity is no longer among the ids, and a query of ids goes on behind it", needs: needs(events, idQueries, forgets), run: forgetIDs},
	{id: "FORGET-12", about: "answers to a concurrent writer are true", needs: needs(events, forgets, fenceAfterDelete), run: forgetRace},
	{id: "FORGET-13", about: "events and a state are forgotten together or not at all", needs: needs(events, states, forgets, deletesStates), run: forgetTogether},
	{id: "FORGET-14", about: "a replay during it does not end early without an error", needs: needs(events, forgets), run: forgetBesideReplay},
	{id: "FORGET-15", about: "what one store has forgotten, another store on the same data has forgotten too", needs: needs(events, forgets, fenceAfterDelete, reopen), run: forgetInAnother},
	{id: "FORGET-16", about: "a state that is written at the same time stays", needs: needs(states, forgets, deletesStates), run: forgetBesideState},
}

// forget calls Forget as clients do: again while that is safe, because a store may not get its lock at once.
func (h *harness) forget(id annals.PersistenceID, age time.Duration) (done bool, err error) {
	err = h.retried(func() error {
		done, err = able[ability.Forgetter](h).Forget(h.ctx, ability.Forgetting{ID: id, Age: age})
		return err
	})
	return done, err
}

// wantForgotten checks the answer of Forget.
func (h *harness) wantForgotten(id annals.PersistenceID, age time.Duration, want bool) {
	h.Helper()
	if got, err := h.forget(id, age); got != want || err != nil {
		h.Errorf("forget %q with age %v: got %v, error %v, want %v", id, age, got, err, want)
	}
}

// wantForgetConflict checks that Forget is a conflict.
func (h *harness) wantForgetConflict(id annals.PersistenceID, what string) {
	h.Helper()
	got, err := h.forget(id, 0)
	if e := (*annals.Error)(nil); got || !errors.Is(err, annals.ErrConflict) || !errors.As(err, &e) || e.ID != id {
		h.Errorf("forget %q, %s: got %v, error %v, want %q with the id", id, what, got, err, annals.ErrConflict)
	}
}

func forgetEvents(h *harness) {
	for range 2 {
		id := annals.PersistenceID("Thing|twice")
		last := h.writeSizes(id, 0, 3, 1, 2)
		h.empty(id)
		h.wantLast(id, last)
		h.wantForgotten(id, 0, true)
		h.wantLast(id, 0)
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, 0)
		h.wantRecoverable(id, 0)
	}
}

func forgetState(h *harness) {
	id := h.id()
	for range 2 {
		h.put(id, 0)
		h.put(id, 1)
		h.deleteState(id, 2)
		h.wantNoState(id, 3)
		h.wantForgotten(id, 0, true)
		h.wantNoState(id, 0)
	}
	h.put(id, 0)
	h.wantState(id, 1)
}

func forgetYoung(h *harness) {
	id := h.id()
	last := h.emptied(id, 3)
	h.wantForgotten(id, ability.ForgetAge, false)
	h.wantLast(id, last)
	if h.caps.FenceAfterDelete {
		_, err := h.journal().Append(h.ctx, h.commit(id, 0, 1))
		h.wantKind(err, annals.ErrConflict, "append with After 0 after a forget that was too early")
	}
	next := h.write(id, last, 1)
	h.wantReplay(id, 1, annals.MaxSeqNr, last+1, next)
	if h.caps.DeletesStates {
		state := h.id()
		h.put(state, 0)
		h.deleteState(state, 1)
		h.wantForgotten(state, ability.ForgetAge, false)
	}
	if s, err := ability.Of[ability.Skipper](h.store); err == nil {
		if err := s.SkipTo(h.ctx, id, next, next+1); err != nil {
			h.Fatalf("skip to %d: got error %v, want none", next+1, err)
		}
		h.wantForgotten(id, ability.ForgetAge, false)
	}
}

func forgetWithEvents(h *harness) {
	id := h.id()
	last := h.write(id, 0, 3)
	h.wantForgetConflict(id, "with all its events")
	h.deleteTo(id, last-1)
	h.wantForgetConflict(id, "with its last event")
	h.wantReplay(id, 1, annals.MaxSeqNr, last, last)
	h.deleteTo(id, last)
	next := h.write(id, last, 1)
	h.wantForgetConflict(id, "written after the delete")
	h.wantReplay(id, 1, annals.MaxSeqNr, next, next)
	h.wantLast(id, next)
}

func forgetWithSnapshot(h *harness) {
	id := h.id()
	last := h.emptied(id, 3)
	h.saveSnapshot(snapshotOf(id, last)) // saved late
	h.wantForgetConflict(id, "with a late snapshot")
	h.wantLast(id, last)
	h.wantSnapshot(id, annals.SnapshotCriteria{}, last)
	h.deleteSnapshots(id, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
	h.wantForgotten(id, 0, true)
	h.wantLast(id, 0)
}

func forgetWithState(h *harness) {
	id := h.id()
	h.put(id, 0)
	h.wantForgetConflict(id, "with its state")
	h.wantState(id, 1)
	h.deleteState(id, 1)
	h.put(id, 2)
	h.wantForgetConflict(id, "with a state put after the delete")
	h.wantState(id, 3)
}

func forgetUnknown(h *harness) {
	id := h.id()
	for range 3 {
		h.wantForgotten(id, ability.ForgetAge, true)
	}
}

func forgetDry(h *harness) {
	s := able[ability.Forgetter](h)
	id := h.id()
	last := h.write(id, 0, 3)
	dry := func(age time.Duration) (bool, error) {
		return s.Forget(h.ctx, ability.Forgetting{ID: id, Age: age, DryRun: true})
	}
	_, err := dry(0)
	h.wantKind(err, annals.ErrConflict, "dry run of forgetting an entity with events")
	h.empty(id)
	for age, want := range map[time.Duration]bool{0: true, ability.ForgetAge: false} {
		if got, err := dry(age); got != want || err != nil {
			h.Errorf("dry run of forgetting with age %v: got %v, error %v, want %v", age, got, err, want)
		}
	}
	h.wantLast(id, last)
	h.wantForgotten(id, 0, true)
	if got, err := dry(ability.ForgetAge); !got || err != nil {
		h.Errorf("dry run of forgetting once more: got %v, error %v, want true", got, err)
	}
}

func forgetInvalid(h *harness) {
	_, err := h.forget(h.id(), -1)
	h.wantKind(err, annals.ErrInvalid, "forget with a negative age")
	for _, id := range []annals.PersistenceID{"", "a\x00b", "\xff"} {
		_, err := h.forget(id, 0)
		h.wantKind(err, annals.ErrInvalid, "forget %q", id)
	}
}

func forgetEndedContext(h *harness) {
	id := h.id()
	last := h.emptied(id, 2)
	for want, ctx := range h.endedContexts() {
		for _, dry := range []bool{false, true} {
			_, err := able[ability.Forgetter](h).Forget(ctx, ability.Forgetting{ID: id, DryRun: dry})
			h.wantKind(err, want, "forget with an ended context")
		}
	}
	h.wantLast(id, last)
}

func forgetIDs(h *harness) {
	ids := []annals.PersistenceID{h.id(), h.id(), h.id()}
	for _, id := range ids {
		h.emptied(id, 1)
	}
	all := h.wantIDs("", ids)
	for i, id := range all {
		h.wantForgotten(id, 0, true)
		h.wantEqual(h.queryIDs("", "", len(all)-i-1), all[i+1:], "ids when %d of three are forgotten", i+1)
		h.wantEqual(h.queryIDs("", id, len(all)-i-1), all[i+1:], "ids after the one that was forgotten last")
	}
}

// forgetRace forgets an entity while a writer appends, who knows the last number or takes the entity for a new one. An acknowledged append must
// be stored.
func forgetRace(h *harness) {
	for i := range h.volume(80, 20) {
		id := h.id()
		after := h.emptied(id, 2)
		if i%2 == 1 {
			after = 0
		}
		var r annals.Receipt
		var forgotten bool
		var appended, err error
		together(2, func(i int) {
			if i == 0 {
				r, appended = h.send(h.ctx, h.store, h.commit(id, after, 1))
			} else {
				forgotten, err = h.forget(id, 0)
			}
		})
		if !forgotten {
			h.wantKind(err, annals.ErrConflict, "forget during an append after %d", after)
		}
		switch {
		case appended == nil:
			if !forgotten && after == 0 {
				h.Errorf("append after 0 to an entity that was not forgotten: got no error, want %q", annals.ErrConflict)
			}
			h.wantReplay(id, 1, annals.MaxSeqNr, after+1, after+1)
			h.wantLast(id, r.SeqNr)
		case !errors.Is(appended, annals.ErrConflict) || !forgotten:
			h.Errorf("append after %d during a forget that answers %v: got error %v", after, forgotten, appended)
		default:
			h.wantReplay(id, 1, annals.MaxSeqNr, 1, 0)
			h.wantLast(id, 0)
		}
	}
}

// forgetBesideState forgets an entity while a writer puts its state, which was never written or has a tombstone. An acknowledged state must be
// stored.
func forgetBesideState(h *harness) {
	for i := range h.volume(80, 20) {
		id := h.id()
		after := annals.SeqNr(0)
		if i%2 == 1 {
			h.put(id, 0)
			h.deleteState(id, 1)
			after = 2
		}
		w := stateWrite(id, after)
		var forgotten bool
		var put, err error
		together(2, func(i int) {
			if i == 0 {
				_, put = h.store.States().Put(h.ctx, w)
			} else {
				forgotten, err = h.forget(id, 0)
			}
		})
		if !forgotten {
			h.wantKind(err, annals.ErrConflict, "forget during a put after %d", after)
		}
		switch {
		case put == nil:
			h.wantState(id, after+1)
		case !errors.Is(put, annals.ErrConflict) || !forgotten || after == 0:
			h.Errorf("put after %d during a forget that answers %v: got error %v", after, forgotten, put)
		default:
			h.wantNoState(id, 0)
		}
	}
}

func forgetTogether(h *harness) {
	id := h.id()
	last := h.emptied(id, 2)
	h.put(id, 0)
	h.wantForgetConflict(id, "with its state, the events deleted")
	h.wantLast(id, last)
	h.deleteState(id, 1)
	next := h.write(id, last, 1)
	h.wantForgetConflict(id, "with an event, the state deleted")
	h.wantNoState(id, 2)
	h.wantLast(id, next)
	h.empty(id)
	h.wantForgotten(id, 0, true)
	h.wantLast(id, 0)
	h.wantNoState(id, 0)
}

// forgetBesideReplay forgets the entity in the body of a replay, at the first event.
func forgetBesideReplay(h *harness) {
	id := h.id()
	last := h.write(id, 0, h.volume(3_000, 700))
	var seen annals.SeqNr
	var end error
	for e, err := range h.journal().Replay(h.ctx, id, 1, annals.MaxSeqNr) {
		if end = err; err != nil {
			break
		}
		if seen = e.SeqNr; seen == 1 {
			h.empty(id)
			h.wantForgotten(id, 0, true)
		}
	}
	switch {
	case end == nil && seen != last:
		h.Errorf("replay of %d events, forgotten at the first: got a quiet end after %d, want all or %q", last, seen, annals.ErrTruncated)
	case end != nil:
		h.wantKind(end, annals.ErrTruncated, "replay of %d events, forgotten at the first", last)
	}
}

// forgetInAnother uses a second store that has read the numbers before.
func forgetInAnother(h *harness) {
	id, other := h.id(), h.second()
	h.emptied(id, 3)
	if _, err := other.Journal().Append(h.ctx, h.commit(id, 0, 1)); !errors.Is(err, annals.ErrConflict) {
		h.Errorf("append with After 0 by another store after a delete: got error %v, want %q", err, annals.ErrConflict)
	}
	h.wantForgotten(id, 0, true)
	if _, err := h.send(h.ctx, other, h.commit(id, 0, 1)); err != nil {
		h.Errorf("append with After 0 by another store after a forget: got error %v, want none", err)
	}
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 1)
}

// emptied writes n events and deletes them; it returns the last number.
func (h *harness) emptied(id annals.PersistenceID, n int) annals.SeqNr {
	h.Helper()
	last := h.write(id, 0, n)
	h.empty(id)
	return last
}

// empty deletes all events, and the snapshots of a store whose first commit must carry one.
func (h *harness) empty(id annals.PersistenceID) {
	h.Helper()
	h.deleteTo(id, annals.MaxSeqNr)
	if h.caps.Limits.FirstSnapshot {
		h.deleteSnapshots(id, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
	}
}
