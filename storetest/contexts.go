package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

var contextCases = []testCase{
	{id: "CONTEXT-1", about: "journal: every operation refuses a context that has ended, and writes nothing", needs: needs(events), run: endedContext},
	{id: "CONTEXT-2", about: "snapshots: every operation refuses a context that has ended", needs: needs(snapshots), run: endedContextSnapshots},
	{id: "CONTEXT-3", about: "states: every operation refuses a context that has ended", needs: needs(states), run: endedContextStates},
	{id: "CONTEXT-4", about: "queries: every operation refuses a context that has ended", needs: needs(events, eventQueries), run: endedContextQueries},
	{id: "CONTEXT-5", about: "an append that is cancelled is stored whole or not at all, and its error says which, or ErrUnknown", needs: needs(events), run: cancelledAppends},
	{id: "CONTEXT-6", about: "a replay that is cancelled in its body ends with an error or is complete", needs: needs(events), run: cancelledReplay},
	{id: "CONTEXT-7", about: "the caller may reuse the Events slice when Append has returned", needs: needs(events), run: reusedEvents},
	{id: "CONTEXT-8", about: "offsets: every operation refuses a context that has ended", needs: needs(offsets), run: endedContextOffsets},
}

// endedContexts are contexts that have ended, by their errors.
func (h *harness) endedContexts() map[error]context.Context {
	cancelled, cancel := context.WithCancel(h.ctx)
	cancel()
	late, cancelLate := context.WithDeadline(h.ctx, time.Unix(1, 0))
	h.Cleanup(cancelLate)
	return map[error]context.Context{context.Canceled: cancelled, context.DeadlineExceeded: late}
}

func endedContext(h *harness) {
	id := h.id()
	h.write(id, 0, 3)
	for want, ctx := range h.endedContexts() {
		_, err := h.journal().Append(ctx, h.commit(id, 3, 1))
		h.wantKind(err, want, "append with an ended context")
		es, err := collect(h.journal().Replay(ctx, id, 1, annals.MaxSeqNr))
		h.wantKind(err, want, "replay with an ended context (%s)", span(es))
		_, err = h.journal().LastSeqNr(ctx, id)
		h.wantKind(err, want, "last number with an ended context")
		h.wantKind(h.journal().DeleteTo(ctx, id, 2), want, "delete events with an ended context")
		for _, s := range []annals.Store{h.store, withoutAbilities{h.store}} {
			_, err = ability.Recover(ctx, s, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
			h.wantKind(err, want, "recovery with an ended context")
		}
	}
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 3)
	h.wantLast(id, 3)
}

func endedContextSnapshots(h *harness) {
	id := h.id()
	h.saveSnapshot(snapshotOf(id, 1))
	for want, ctx := range h.endedContexts() {
		h.wantKind(h.store.Snapshots().Save(ctx, snapshotOf(id, 2)), want, "save a snapshot with an ended context")
		_, _, err := h.store.Snapshots().Latest(ctx, id, annals.SnapshotCriteria{})
		h.wantKind(err, want, "newest snapshot with an ended context")
		h.wantKind(h.store.Snapshots().Delete(ctx, id, annals.SnapshotCriteria{MaxSeqNr: 5}), want, "delete snapshots with an ended context")
	}
	h.wantSnapshot(id, annals.SnapshotCriteria{}, 1)
}

func endedContextStates(h *harness) {
	id := h.id()
	h.put(id, 0)
	for want, ctx := range h.endedContexts() {
		_, err := h.store.States().Put(ctx, stateWrite(id, 1))
		h.wantKind(err, want, "put a state with an ended context")
		if h.caps.DeletesStates {
			_, err = h.store.States().Delete(ctx, stateWrite(id, 1))
			h.wantKind(err, want, "delete a state with an ended context")
		}
		_, _, err = h.store.States().Get(ctx, id)
		h.wantKind(err, want, "get a state with an ended context")
		if h.caps.StateQueries {
			_, err = collect(h.store.Query().States(ctx, annals.Filter{}))
			h.wantKind(err, want, "query states with an ended context")
		}
	}
	h.wantState(id, 1)
}

func endedContextQueries(h *harness) {
	h.write(h.id(), 0, 3)
	for want, ctx := range h.endedContexts() {
		_, err := collect(h.store.Query().Events(ctx, annals.Filter{}))
		h.wantKind(err, want, "query events with an ended context")
		if h.caps.IDQueries {
			_, err = collect(h.store.Query().IDs(ctx, "", ""))
			h.wantKind(err, want, "query ids with an ended context")
		}
		_, err = h.store.Query().Newest(ctx, annals.Filter{})
		h.wantKind(err, want, "query the newest offset with an ended context")
	}
}

func endedContextOffsets(h *harness) {
	o := offsetAt("Thing|a", 1, 1)
	h.saveOffsets("p", o)
	for want, ctx := range h.endedContexts() {
		h.wantKind(h.store.Offsets().Save(ctx, annals.Progress{Projection: "p", Offsets: []annals.Offset{offsetAt("Thing|a", 2, 2)}}), want, "save offsets with an ended context")
		_, err := h.store.Offsets().Load(ctx, "p", annals.SliceRange{})
		h.wantKind(err, want, "load offsets with an ended context")
		_, err = h.store.Offsets().Handled(ctx, "p", "Thing|a")
		h.wantKind(err, want, "load an offset with an ended context")
		h.wantKind(h.store.Offsets().Reset(ctx, "p", annals.SliceRange{}, annals.Offset{}), want, "reset offsets with an ended context")
	}
	h.wantHandled("p", o)
}

// cancelledAppends cancels the context during an append. With ErrUnknown the commit may have been written: it is sent again to find out. With any
// other error nothing was written.
func cancelledAppends(h *harness) {
	id, stored := h.id(), 0
	var after annals.SeqNr
	for i := range h.volume(200, 40) {
		c := h.commit(id, after, h.batch(1+i%4))
		want := after + annals.SeqNr(len(c.Events))
		ctx, cancel := context.WithCancel(h.ctx)
		var r annals.Receipt
		var err error
		together(2, func(j int) {
			if j == 0 {
				cancel()
			} else {
				r, err = h.journal().Append(ctx, c)
			}
		})
		last := h.last(id)
		switch {
		case err == nil && (r.SeqNr != want || last != want):
			h.Fatalf("append after %d, cancelled meanwhile: got receipt for %d without an error, last number %d, want %d", after, r.SeqNr, last, want)
		case isConflict(err):
			h.Fatalf("append after %d, cancelled meanwhile: got error %v, want none, ErrUnknown or the context's", after, err)
		case err != nil && !errors.Is(err, annals.ErrUnknown) && last != after:
			h.Fatalf("append after %d, cancelled meanwhile: got error %v, which says that nothing was written, but last number %d", after, err, last)
		case last != after && last != want:
			h.Fatalf("append after %d, cancelled meanwhile: got last number %d, want %d or %d", after, last, after, want)
		}
		if err != nil && !h.caps.Repeatable {
			id, after = h.id(), 0 // the write may still arrive, and the store would not recognise it
			continue
		}
		if err != nil {
			if r, err = h.send(h.ctx, h.store, c); err != nil || r.SeqNr != want {
				h.Fatalf("append with After %d sent again after a cancelled attempt: got %+v, error %v, want number %d", after, r, err, want)
			}
		}
		stored++
		after = want
	}
	if h.caps.Repeatable && stored == 0 {
		h.Errorf("cancelled appends: got none that was stored")
	}
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, after)
	h.wantLast(id, after)
}

func cancelledReplay(h *harness) {
	id := h.id()
	last := h.write(id, 0, h.volume(2_500, 600))
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	var got []annals.Event
	var end error
	for e, err := range h.journal().Replay(ctx, id, 1, annals.MaxSeqNr) {
		if end = err; err != nil {
			break
		}
		if got = append(got, e); len(got) == 5 {
			cancel()
		}
	}
	if end != nil {
		h.wantKind(end, context.Canceled, "replay of %d events, cancelled at the fifth, after %d", last, len(got))
		h.wantEvents("replay up to its cancellation", got, id, 1, annals.SeqNr(len(got)))
		return
	}
	h.wantEvents("replay cancelled at the fifth event, without an error", got, id, 1, last)
}

// reusedEvents appends all commits from one slice and overwrites the slice when Append has returned, also when the context ended first. The race
// detector finds a store that still reads the slice.
func reusedEvents(h *harness) {
	id := h.id()
	buffer := make([]annals.NewEvent, 0, 4)
	var after annals.SeqNr
	for i := range h.volume(100, 30) {
		n := h.batch(1 + i%4)
		fill := func() annals.Commit {
			c := h.commit(id, after, n)
			buffer = append(buffer[:0], c.Events...)
			c.Events = buffer
			return c
		}
		scribble := func() {
			for j := range buffer {
				buffer[j] = annals.NewEvent{Payload: payload(-1), Tags: []string{"scribble"}}
			}
		}
		if i%2 == 1 && h.caps.Repeatable {
			c := fill()
			ctx, cancel := context.WithCancel(h.ctx)
			together(2, func(j int) {
				if j == 0 {
					cancel()
				} else {
					_, _ = h.journal().Append(ctx, c)
					scribble()
				}
			})
			buffer = append(buffer[:0], newEvents(after, n)...)
			after = h.append(c).SeqNr
			continue
		}
		c := fill()
		after = h.append(c).SeqNr
		scribble()
	}
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, after)
}
