package storetest

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/annals-go/annals"
)

var truncationCases = []testCase{
	{id: "TRUNCATE-1", about: "a delete of all events in the body of a replay: it is complete, or ErrTruncated", needs: needs(events), run: deleteInBody(annals.MaxSeqNr, annals.MaxSeqNr)},
	{id: "TRUNCATE-2", about: "a delete to 100 below the last in the body of a replay: it is complete, or ErrTruncated", needs: needs(events), run: deleteInBody(-100, annals.MaxSeqNr)},
	{id: "TRUNCATE-3", about: "a delete of all but the last event in the body of a replay", needs: needs(events), run: deleteInBody(-1, annals.MaxSeqNr)},
	{id: "TRUNCATE-4", about: "replays during appends and deletes never end early without an error", needs: needs(events), run: replaysBesideDeletes},
	{id: "TRUNCATE-5", about: "a delete of events that a replay has yielded does not disturb it", needs: needs(events), run: deleteBehindReader},
	{id: "TRUNCATE-6", about: "a delete of all events in the body of a bounded replay: it is complete, or ErrTruncated", needs: needs(events), run: deleteInBody(annals.MaxSeqNr, -100)},
}

// deleteInBody deletes to a number at the first event of a replay to a bound; numbers below 0 count from the last. The replay of a store that reads as
// of one moment is complete. A store that reads page by page must find that events are missing, also when no later event shows it.
func deleteInBody(to, bound annals.SeqNr) func(h *harness) {
	return func(h *harness) {
		id := h.id()
		last := h.write(id, 0, h.volume(2_500, 250))
		from := func(n annals.SeqNr) annals.SeqNr {
			if n < 0 {
				n += last
			}
			return n
		}
		to, bound := from(to), from(bound)
		var got []annals.Event
		var end error
		for e, err := range h.journal().Replay(h.ctx, id, 1, bound) {
			if end = err; err != nil {
				break
			}
			if got = append(got, e); len(got) == 1 {
				h.deleteTo(id, to)
			}
		}
		did := fmt.Sprintf("replay of %d events to %d with a delete to %d in its body", last, bound, to)
		if end == nil {
			h.wantEvents(did, got, id, 1, min(bound, last))
		} else {
			h.wantKind(end, annals.ErrTruncated, "%s, after %d events", did, len(got))
			h.wantEvents(did+" up to its error", got, id, 1, annals.SeqNr(len(got)))
		}
		h.wantReplay(id, 1, annals.MaxSeqNr, min(to, last)+1, last)
	}
}

// replaysBesideDeletes lets one goroutine append, one delete most events, and two replay. A replay without an error must have all events that were
// acknowledged before it began and not deleted before it ended.
func replaysBesideDeletes(h *harness) {
	const readers = 2
	id, rounds := h.id(), h.volume(40, 15)
	var acked, deleting, replays atomic.Int64
	var reading atomic.Int32
	var ended atomic.Bool // the appends
	reading.Store(readers)
	errs := make([]error, 2+readers)
	together(len(errs), func(i int) {
		switch i {
		case 0:
			defer ended.Store(true)
			for round := 0; reading.Load() > 0 && errs[i] == nil; round++ {
				runtime.Gosched() // the replays may share the processor
				// A replay goes on as long as there are more events, and takes longer with what was deleted. So appends wait for replays.
				if acked.Load() > 500+8*replays.Load() {
					_, errs[i] = h.journal().LastSeqNr(h.ctx, id)
					continue
				}
				var r annals.Receipt
				if r, errs[i] = h.send(h.ctx, h.store, h.commit(id, annals.SeqNr(acked.Load()), h.batch(1+round%4))); errs[i] == nil {
					acked.Store(int64(r.SeqNr))
				}
			}
		case 1:
			for round := 0; reading.Load() > 0 && errs[i] == nil; round++ {
				runtime.Gosched()
				to := acked.Load() - int64(round%5)
				deleting.Store(max(to, deleting.Load()))
				errs[i] = h.journal().DeleteTo(h.ctx, id, annals.SeqNr(max(to, 0)))
			}
		default:
			defer reading.Add(-1)
			for round, seen := 0, int64(0); round < rounds && errs[i] == nil && !ended.Load(); {
				errs[i] = h.replayBesideDelete(id, &acked, &deleting)
				if now := acked.Load(); now > seen { // a replay without an append shows nothing
					seen, round = now, round+1
					replays.Add(1)
				}
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		h.Fatalf("append, delete and replay side by side: got error %v", err)
	}
}

func (h *harness) replayBesideDelete(id annals.PersistenceID, acked, deleting *atomic.Int64) error {
	before := annals.SeqNr(acked.Load())
	es, err := collect(h.journal().Replay(h.ctx, id, 1, annals.MaxSeqNr))
	if err != nil && !errors.Is(err, annals.ErrTruncated) {
		return err
	}
	deleted := annals.SeqNr(deleting.Load())
	if len(es) == 0 {
		if err == nil && deleted < before {
			return fmt.Errorf("got no events, want those up to %d: deletes went to %d only", before, deleted)
		}
		return nil
	}
	first, last := es[0].SeqNr, es[len(es)-1].SeqNr
	if fault := eventsFault(es, id, first, last); fault != "" {
		return fmt.Errorf("got %s, want no hole: %s", span(es), fault)
	}
	if err == nil && (first > deleted+1 || last < before) {
		return fmt.Errorf("got %s without an error, want at least %d to %d", span(es), deleted+1, before)
	}
	return nil
}

func deleteBehindReader(h *harness) {
	id := h.id()
	last := h.write(id, 0, h.volume(1_200, 300))
	var got []annals.Event
	for e, err := range h.journal().Replay(h.ctx, id, 1, annals.MaxSeqNr) {
		if err != nil {
			h.Fatalf("replay whose body deletes what it has seen: got error %v after %d events, want none", err, len(got))
		}
		if got = append(got, e); e.SeqNr%200 == 0 {
			h.deleteTo(id, e.SeqNr)
		}
	}
	h.wantEvents("replay whose body deletes what it has seen", got, id, 1, last)
	h.wantReplay(id, 1, annals.MaxSeqNr, last/200*200+1, last)
}
