package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

var contextCases = []testCase{
	{id: "CONTEXT-1", about: "every operation refuses a context that has ended, names itself and the entity in the error, and writes nothing", own: true, run: endedContext},
	{id: "CONTEXT-5", about: "an append that is cancelled is stored whole or not at all, and its error says which, or ErrUnknown", needs: needs(events), run: cancelledAppends},
	{id: "CONTEXT-6", about: "a replay that is cancelled in its body ends with an error or is complete", needs: needs(events), run: cancelledReplay},
	{id: "CONTEXT-7", about: "the caller may reuse the Events slice when Append has returned", needs: needs(events), run: reusedEvents},
}

// endedContexts are contexts that have ended, by their errors.
func (h *harness) endedContexts() map[error]context.Context {
	cancelled, cancel := context.WithCancel(h.ctx)
	cancel()
	late, cancelLate := context.WithDeadline(h.ctx, time.Unix(1, 0))
	h.Cleanup(cancelLate)
	return map[error]context.Context{context.Canceled: cancelled, context.DeadlineExceeded: late}
}

// endedContext runs every operation on an entity that was never written and on one that was.
func endedContext(h *harness) {
	fresh, written, other := h.id(), h.id(), offsetAt("Thing|other", 3, 30)
	if h.caps.Events {
		h.write(written, 0, 3)
	}
	if h.caps.Snapshots {
		h.saveSnapshot(snapshotOf(written, 3))
	}
	if h.caps.States {
		h.put(written, 0)
	}
	if h.caps.Offsets {
		h.saveOffsets("p", other)
	}
	for want, ctx := range h.endedContexts() {
		for _, id := range []annals.PersistenceID{fresh, written} {
			for _, op := range h.operations(h.store, id) {
				if op.claimed {
					err := op.run(ctx, h.store)
					h.wantNamed(err, annals.ErrUnavailable, op, "with an ended context")
					h.wantKind(err, want, "%s with an ended context", op.name)
				}
			}
		}
		if h.caps.Events {
			_, err := ability.Recover(ctx, withoutAbilities{h.store}, written, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
			h.wantKind(err, want, "recovery without the store's own, with an ended context")
		}
	}
	if h.caps.Events {
		h.wantReplay(fresh, 1, annals.MaxSeqNr, 1, 0)
		h.wantReplay(written, 1, annals.MaxSeqNr, 1, 3)
		h.wantLast(written, 3)
	}
	if h.caps.Snapshots {
		h.wantSnapshot(fresh, annals.SnapshotCriteria{}, 0)
		h.wantSnapshot(written, annals.SnapshotCriteria{}, 3)
	}
	if h.caps.States {
		h.wantNoState(fresh, 0)
		h.wantState(written, 1)
	}
	if h.caps.Offsets {
		h.wantHandled("p", other)
		h.wantNotHandled("p", fresh)
	}
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
