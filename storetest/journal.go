package storetest

import (
	"fmt"
	"iter"
	"math"

	"github.com/annals-go/annals"
)

// journalCases are the journal cases of the test kit of the Akka and Pekko persistence plugins.
var journalCases = append(replayTable(), []testCase{
	{id: "J-O2", about: "serializer id, manifest and bytes of a payload are kept", needs: needs(events), run: payloadsComeBack},
	{id: "J-O4", about: "metadata is kept", needs: needs(events, metadata), run: metadataComeBack},
	{id: "J-P3", about: "ten thousand events replay in order, twice", needs: needs(events), run: tenThousand},
	{id: "J-W6", about: "nine concurrent commits to nine entities are acknowledged and stored", needs: needs(events), run: nineEntities},
	{id: "J-D3", about: "149 single events and a batch, deleted to 5, to a smaller number, and to one above the last", needs: needs(events), own: true, run: deletesInTurn},
	{id: "J-A1", about: "the first commit ever is a batch", needs: needs(events), run: batchesAt(10)},
	{id: "J-A2", about: "a batch of 3 ends on 100", needs: needs(events), run: batchesAt(97, 3)},
	{id: "J-A3", about: "a batch of 3 has 100 in its middle", needs: needs(events), run: batchesAt(98, 3)},
	{id: "J-A4", about: "a batch of 3 begins with 100", needs: needs(events), run: batchesAt(99, 3)},
	{id: "J-A5", about: "a batch ends on 99", needs: needs(events), run: batchesAt(96, 3)},
	{id: "J-R1", about: "a replay during an append sees the first events of the batch, without a gap; a replay after the append sees all", needs: needs(events), run: readBesideBatch},
	{id: "J-X1", about: "a delete in the middle of a batch keeps the rest of it", needs: needs(events), run: deleteWithinBatch},
	{id: "J-X2", about: "a replay from the middle of a batch", needs: needs(events), run: replayFromWithinBatch},
	{id: "J-X9", about: "of two writers of the same number the second fails, however often it sends its commit", needs: needs(events), run: secondWriterFails},
	{id: "J-X11", about: "a refused event 100 affects no other entity, and its number is used by the next one", needs: needs(events), run: refusedAt(99, 1)},
	{id: "J-X12", about: "the numbers of a refused batch 99 to 101 are used by the next one", needs: needs(events), run: refusedAt(98, 3)},
	{id: "J-BR1", about: "a replay can be read in steps", needs: needs(events), run: stepByStep},
	{id: "J-BR2", about: "a replay in steps ends at its bound", needs: needs(events), run: inSteps(5, 0, 3, 2)},
	{id: "J-BR3", about: "a replay in steps begins after deleted events", needs: needs(events), run: inSteps(5, 3, annals.MaxSeqNr, 1)},
	{id: "Q-G1", about: "current events, two now and the others later", needs: needs(events), run: inSteps(3, 0, annals.MaxSeqNr, 2)},
}...)

// replayTable are the cases that delete and then replay a range of the fixture. Replay has no limit as the test kit's has: the loop breaks off.
func replayTable() (all []testCase) {
	const end, all5 = annals.MaxSeqNr, -1
	type row struct {
		id, about   string
		del         annals.SeqNr // 0: nothing
		from, to    annals.SeqNr
		max         int
		first, last annals.SeqNr
	}
	for _, r := range []row{
		{"J-01", "replay all", 0, 1, end, all5, 1, 5},
		{"J-02", "replay from 3", 0, 3, end, all5, 3, 5},
		{"J-03", "replay to 3", 0, 1, 3, all5, 1, 3},
		{"J-04", "replay at most 3", 0, 1, end, 3, 1, 3},
		{"J-05", "replay 2 to 3", 0, 2, 3, all5, 2, 3},
		{"J-06", "replay 2 to 5, at most 2", 0, 2, 5, 2, 2, 3},
		{"J-07", "replay 2 to 2", 0, 2, 2, all5, 2, 2},
		{"J-08", "replay 2 to 4, at most 1", 0, 2, 4, 1, 2, 2},
		{"J-09", "replay 2 to 4, at most 0", 0, 2, 4, 0, 1, 0},
		{"J-10", "replay 3 to 2", 0, 3, 2, all5, 1, 0},
		{"J-12", "delete to 3, replay all", 3, 1, end, all5, 4, 5},
		{"J-13", "delete to 3, replay from 0", 3, 0, end, all5, 4, 5},
		{"REPLAY-7", "replay from a number below 0", 0, math.MinInt64, end, all5, 1, 5},
		{"REPLAY-8", "replay to a number below 0", 0, -9, -1, all5, 1, 0},
		{"J-14", "delete all, replay all: the last number stays", end, 0, end, all5, 1, 0},
		{"J-15", "delete to 3, replay from 3", 3, 3, end, all5, 4, 5},
		{"J-16", "delete to 3, replay 1 to 2", 3, 1, 2, all5, 1, 0},
		{"J-17", "delete to 3, replay 1 to 3", 3, 1, 3, all5, 1, 0},
		{"J-18", "delete to 3, replay from 4", 3, 4, end, all5, 4, 5},
		{"J-O5", "delete to 3, replay 1 to 4", 3, 1, 4, all5, 4, 4},
		{"Q-G2", "current events 0 to 2 of five", 0, 0, 2, all5, 1, 2},
		{"Q-G4", "current events when all are deleted", 5, 0, end, all5, 1, 0},
		{"Q-G5", "current events 0 to 0 when all are deleted", 5, 0, 0, all5, 1, 0},
		{"Q-G6", "current events when all but the last are deleted", 4, 0, end, all5, 5, 5},
		{"Q-G8", "current events 0 to 0", 0, 0, 0, all5, 1, 0},
		{"Q-G9", "current events 6 to 5", 0, 6, 5, all5, 1, 0},
	} {
		all = append(all, testCase{id: r.id, about: r.about, needs: needs(events), run: func(h *harness) {
			id := h.id()
			h.fixture(id)
			if r.del > 0 {
				h.deleteTo(id, r.del)
			}
			h.wantEvents(fmt.Sprintf("replay %q from %d to %d, at most %d", id, r.from, r.to, r.max), h.atMost(id, r.from, r.to, r.max), id, r.first, r.last)
			h.wantLast(id, 5)
		}})
	}
	never := func(h *harness) {
		id := h.id()
		h.fixture(h.id()) // another entity
		h.wantReplay(id, 0, annals.MaxSeqNr, 1, 0)
		h.wantReplay(id, 0, 0, 1, 0)
		h.wantLast(id, 0)
	}
	return append(all, testCase{id: "J-11", about: "an entity never written has no events and no last number", needs: needs(events), run: never})
}

// fixture writes five events: a single one, a batch of three and a single one.
func (h *harness) fixture(id annals.PersistenceID) {
	h.Helper()
	h.writeSizes(id, 0, 1, 3, 1)
}

// atMost reads up to limit events and breaks off. A negative limit is no limit.
func (h *harness) atMost(id annals.PersistenceID, from, to annals.SeqNr, limit int) (es []annals.Event) {
	h.Helper()
	if limit == 0 {
		return nil
	}
	for e, err := range h.journal().Replay(h.ctx, id, from, to) {
		if err != nil {
			h.Fatalf("replay %q from %d to %d: got error %v after %d events, want none", id, from, to, err, len(es))
		}
		if es = append(es, e); len(es) == limit {
			break
		}
	}
	return es
}

// unstorable is a commit that is refused for its last event.
func (h *harness) unstorable(id annals.PersistenceID, after annals.SeqNr, n int) annals.Commit {
	c := h.commit(id, after, n)
	c.Events[n-1].Payload.SerializerID = 0
	return c
}

func payloadsComeBack(h *harness) {
	id := h.id()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	want := []annals.Payload{
		{SerializerID: 666, Manifest: "A", Data: []byte("akka://sys/user/ä")},
		{SerializerID: 31, Data: every},
		{SerializerID: -7, Manifest: "日本 😀 | ; , ' \" \\", Data: []byte{0}},
		{SerializerID: 1<<31 - 1, Manifest: "empty", Data: []byte{}},
	}
	var after annals.SeqNr
	for _, p := range want {
		after = h.append(h.complete(annals.Commit{ID: id, After: after, Events: []annals.NewEvent{{Payload: p}}, WriteID: annals.NewWriteID()})).SeqNr
	}
	for i, e := range h.events(id, 1, after) {
		if !equal(e.Payload, want[i]) {
			h.Errorf("replay of number %d: got %s, want %s", e.SeqNr, show(e.Payload), show(want[i]))
		}
	}
	h.wantLast(id, after)
}

func metadataComeBack(h *harness) {
	id := h.id()
	h.fixture(id)
	meta := annals.Payload{SerializerID: 9, Manifest: "M", Data: []byte("meta-data")}
	c := h.commit(id, 5, 1)
	c.Events[0].Metadata = meta
	h.append(c)
	es := h.events(id, 5, 6)
	h.wantEqual(es[0].Metadata, annals.Payload{}, "metadata of an event written without")
	h.wantEqual(es[1].Metadata, meta, "metadata of number 6")
}

func tenThousand(h *harness) {
	id, n := h.id(), h.volume(10_000, 1_200)
	last := h.write(id, 0, n)
	for range 2 {
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, last)
	}
	h.wantReplay(id, last-1, annals.MaxSeqNr, last-1, last)
	h.wantLast(id, last)
}

func nineEntities(h *harness) {
	ids := make([]annals.PersistenceID, 9)
	errs := make([]error, len(ids))
	for i := range ids {
		ids[i] = h.id()
	}
	together(len(ids), func(i int) { _, errs[i] = h.send(h.ctx, h.store, h.commit(ids[i], 0, h.batch(3))) })
	for i, err := range errs {
		if err != nil {
			h.Errorf("append to %q at the same time as to eight others: got error %v, want none", ids[i], err)
			continue
		}
		h.wantReplay(ids[i], 1, annals.MaxSeqNr, 1, annals.SeqNr(h.batch(3)))
	}
}

// deletesInTurn also queries, where the store has queries (Q-P3).
func deletesInTurn(h *harness) {
	id, singles := h.id(), annals.SeqNr(h.volume(149, 19))
	for n := range singles {
		h.append(h.commit(id, n, 1))
	}
	last := h.writeSizes(id, singles, 51)
	h.wantReplay(id, 1, singles, 1, singles)
	for _, step := range []struct{ to, first annals.SeqNr }{{0, 1}, {5, 6}, {3, 6}, {last + 10, last + 1}} {
		h.deleteTo(id, step.to)
		h.wantReplay(id, 0, annals.MaxSeqNr, step.first, last)
		h.wantLast(id, last)
		if h.caps.EventQueries {
			h.wantEvents(fmt.Sprintf("query after a delete to %d", step.to), h.queryEvents(annals.Filter{}, int(last+1-step.first)), id, step.first, last)
		}
	}
}

func batchesAt(sizes ...int) func(h *harness) {
	return func(h *harness) {
		id := h.id()
		last := h.writeSizes(id, 0, sizes...)
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, last)
		h.wantReplay(id, last, annals.MaxSeqNr, last, last)
		h.wantLast(id, last)
		last = h.write(id, last, 1)
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, last)
	}
}

// readBesideBatch allows a replay during an append to yield the first events of a batch, but never a gap. When the batch is acknowledged, a
// replay must yield all of it.
func readBesideBatch(h *harness) {
	n := h.batch(20)
	for range h.volume(50, 10) {
		id := h.id()
		var seen []annals.Event
		var appendErr, replayErr error
		together(2, func(i int) {
			if i == 0 {
				_, appendErr = h.send(h.ctx, h.store, h.commit(id, 0, n))
			} else {
				seen, replayErr = collect(h.journal().Replay(h.ctx, id, 1, annals.MaxSeqNr))
			}
		})
		if appendErr != nil || replayErr != nil {
			h.Fatalf("append %d events during a replay: got errors %v and %v, want none", n, appendErr, replayErr)
		}
		h.wantEvents("replay during an append", seen, id, 1, annals.SeqNr(len(seen)))
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, annals.SeqNr(n))
		h.wantLast(id, annals.SeqNr(n))
	}
}

func deleteWithinBatch(h *harness) {
	id := h.id()
	h.writeSizes(id, 0, 1, 5, 1)
	h.deleteTo(id, 3)
	h.wantReplay(id, 1, annals.MaxSeqNr, 4, 7)
	h.deleteTo(id, 2) // must not bring 3 back
	h.wantReplay(id, 1, annals.MaxSeqNr, 4, 7)
	h.deleteTo(id, 6)
	h.wantReplay(id, 1, annals.MaxSeqNr, 7, 7)
	h.wantLast(id, 7)
}

func replayFromWithinBatch(h *harness) {
	id := h.id()
	h.writeSizes(id, 0, 5)
	for from := range annals.SeqNr(6) {
		for to := range annals.SeqNr(7) {
			h.wantReplay(id, from, to, max(from, 1), min(to, 5))
		}
	}
}

func secondWriterFails(h *harness) {
	id := h.id()
	h.write(id, 0, 3)
	h.append(h.commit(id, 3, 1))
	other := h.commit(id, 3, 1)
	other.Events[0].Payload = payload(999)
	for range 3 {
		_, err := h.journal().Append(h.ctx, other)
		h.wantKind(err, annals.ErrConflict, "second append after 3")
	}
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 4)
}

func refusedAt(after annals.SeqNr, n int) func(h *harness) {
	return func(h *harness) {
		id, other := h.id(), h.id()
		h.write(id, 0, int(after))
		n := h.batch(n)
		_, err := h.journal().Append(h.ctx, h.unstorable(id, after, n))
		h.wantKind(err, annals.ErrInvalid, "append %d events after %d, the last without serializer id", n, after)
		h.wantLast(id, after)
		h.write(other, 0, 2)
		h.wantReplay(other, 1, annals.MaxSeqNr, 1, 2)
		last := h.writeSizes(id, after, 1, 2)
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, last)
		h.wantLast(id, last)
	}
}

// steps reads the next n events of a replay by iter.Pull2.
func (h *harness) steps(next func() (annals.Event, error, bool), n int) (es []annals.Event) {
	h.Helper()
	for range n {
		e, err, ok := next()
		if err != nil {
			h.Fatalf("next event of a replay: got error %v after %d events, want none", err, len(es))
		}
		if !ok {
			break
		}
		es = append(es, e)
	}
	return es
}

func stepByStep(h *harness) {
	id := h.id()
	h.writeSizes(id, 0, 5)
	next, stop := iter.Pull2(h.journal().Replay(h.ctx, id, 1, 5))
	defer stop()
	h.wantEvents("first step", h.steps(next, 2), id, 1, 2)
	h.write(id, 5, 1) // nothing is held between the steps
	h.wantEvents("second step", h.steps(next, 2), id, 3, 4)
	h.wantLast(id, 6)
	h.wantEvents("third step", h.steps(next, 2), id, 5, 5)
}

// inSteps writes so many events, deletes, and reads a replay to a number in two steps, the first of n events.
func inSteps(size int, deleted, to, n annals.SeqNr) func(h *harness) {
	return func(h *harness) {
		id := h.id()
		h.writeSizes(id, 0, size)
		h.deleteTo(id, deleted)
		next, stop := iter.Pull2(h.journal().Replay(h.ctx, id, 0, to))
		defer stop()
		h.wantEvents("first step", h.steps(next, int(n)), id, deleted+1, deleted+n)
		h.wantEvents("second step", h.steps(next, 2), id, deleted+n+1, min(to, annals.SeqNr(size)))
	}
}
