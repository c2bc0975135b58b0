package storetest

import (
	"context"
	"time"

	"github.com/annals-go/annals"
)

// abilityCases are about the optional interfaces of a store.
var abilityCases = []testCase{
	{id: "SKIP-1", about: "an entity starts behind numbers that were deleted elsewhere", needs: needs(events, skipper), run: skipTo},
	{id: "SKIP-2", about: "an entity that has been written cannot skip", needs: needs(events, skipper), run: skipWritten},
	{id: "WATCH-1", about: "a write is signalled to those who watch", needs: needs(events, watcher), run: watched},
	{id: "WATCH-2", about: "the channel is closed when the context ends", needs: needs(events, watcher), run: watchEnds},
}

func skipTo(h *harness) {
	id, s := h.id(), h.store.(annals.Skipper)
	if err := s.SkipTo(h.ctx, id, 41); err != nil {
		h.Fatalf("skip to 41: got error %v, want none", err)
	}
	h.wantLast(id, 41)
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 0)
	h.wantRecoverable(id, 41)
	_, err := h.journal().Append(h.ctx, h.commit(id, 0, 1))
	h.wantKind(err, annals.ErrConflict, "append after 0 behind a skip to 41")
	last := h.write(id, 41, 2)
	h.wantReplay(id, 1, annals.MaxSeqNr, 42, last)
	h.wantLast(id, last)
}

func skipWritten(h *harness) {
	id, s := h.id(), h.store.(annals.Skipper)
	h.write(id, 0, 2)
	h.wantKind(s.SkipTo(h.ctx, id, 10), annals.ErrConflict, "skip to 10 of an entity with two events")
	h.deleteTo(id, annals.MaxSeqNr)
	h.wantKind(s.SkipTo(h.ctx, id, 10), annals.ErrConflict, "skip to 10 of an entity with two deleted events")
	h.wantLast(id, 2)
}

// watched waits for a signal of every append; there may be more signals than appends.
func watched(h *harness) {
	ctx, cancel := context.WithTimeout(h.ctx, 30*time.Second)
	defer cancel()
	signals, err := h.store.(annals.Watcher).Watch(ctx, annals.Filter{})
	if err != nil {
		h.Fatalf("watch: got error %v, want none", err)
	}
	id := h.id()
	for after := range annals.SeqNr(3) {
		h.append(h.commit(id, after, 1))
		if _, open := <-signals; !open {
			h.Fatalf("watch: got no signal of event %d within 30 seconds, want one", after+1)
		}
	}
}

func watchEnds(h *harness) {
	ctx, cancel := context.WithCancel(h.ctx)
	signals, err := h.store.(annals.Watcher).Watch(ctx, annals.Filter{})
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
