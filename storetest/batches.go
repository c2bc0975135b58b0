package storetest

import (
	"fmt"

	"github.com/annals-go/annals"
)

var batchCases = append(batchTable(), []testCase{
	{id: "BATCH-5", about: "one event more than a commit may have is refused whole", needs: needs(events), run: batchAboveLimit},
	{id: "BATCH-6", about: "one byte more than a commit may have is refused whole", needs: needs(events, sizeLimit), run: bytesAboveLimit},
	{id: "BATCH-7", about: "racing batches are never mixed", needs: needs(events), run: racingBatches},
}...)

func batchTable() (all []testCase) {
	for i, n := range []int{1, 2, 100, 1000} {
		all = append(all, testCase{id: fmt.Sprintf("BATCH-%d", i+1), about: fmt.Sprintf("a batch of %d is stored whole, as the first batch and after others", n), needs: needs(events), run: func(h *harness) {
			id, n := h.id(), h.batch(n)
			last := h.append(h.commit(id, 0, n)).SeqNr
			h.wantReplay(id, 1, annals.MaxSeqNr, 1, last)
			last = h.writeSizes(id, last, 1)
			last = h.append(h.commit(id, last, n)).SeqNr
			h.wantReplay(id, 1, annals.MaxSeqNr, 1, last)
			h.wantLast(id, last)
		}})
	}
	return all
}

// batchAboveLimit appends 2,000 events to a store without a limit.
func batchAboveLimit(h *harness) {
	id, limit := h.id(), h.caps.Limits.MaxEvents
	if limit == 0 {
		last := h.append(h.commit(id, 0, 2_000)).SeqNr
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, last)
		return
	}
	after := h.write(id, 0, 1)
	_, err := h.journal().Append(h.ctx, h.commit(id, after, limit+1))
	h.wantKind(err, annals.ErrTooLarge, "append %d events where Limits.MaxEvents is %d", limit+1, limit)
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, after)
	h.wantLast(id, after)
	last := h.append(h.commit(id, after, limit)).SeqNr
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, last)
}

func bytesAboveLimit(h *harness) {
	id, limit := h.id(), h.caps.Limits.MaxBytes
	after := h.write(id, 0, 1)
	c := h.commit(id, after, 1)
	c.Events[0].Data = make([]byte, limit+1)
	_, err := h.journal().Append(h.ctx, c)
	h.wantKind(err, annals.ErrTooLarge, "append %d bytes where Limits.MaxBytes is %d", limit+1, limit)
	h.wantLast(id, after)
	if h.batch(2) == 2 {
		c = h.commit(id, after, 2)
		c.Events[0].Data, c.Events[1].Data = make([]byte, limit/2+1), make([]byte, limit/2+1)
		_, err = h.journal().Append(h.ctx, c)
		h.wantKind(err, annals.ErrTooLarge, "append two events of %d bytes where Limits.MaxBytes is %d", limit/2+1, limit)
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, after)
	}
	c = h.commit(id, after, 1)
	fill(&c.Events[0].Payload, limit)
	h.append(c)
	if es := h.replay(id, after+1, annals.MaxSeqNr); len(es) != 1 || len(es[0].Data) != len(c.Events[0].Data) {
		h.Errorf("replay of an event of %d bytes, the limit: got %s, want it whole", limit, span(es))
	}
}

// mostTries bounds how often a writer tries again after a conflict.
const mostTries = 10_000

// racingBatches lets several writers append batches of different sizes. Each batch must be stored whole: the manifests name the writer and
// the batch, and the payloads are numbered.
func racingBatches(h *harness) {
	const writers = 4
	id, rounds := h.id(), h.volume(20, 6)
	errs := make([]error, writers)
	together(writers, func(w int) {
		for round := range rounds {
			size := h.batch(1 + (w+round)%5)
			for try := 0; ; try++ {
				var after annals.SeqNr
				if after, errs[w] = h.journal().LastSeqNr(h.ctx, id); errs[w] != nil {
					return
				}
				c := h.commit(id, after, size)
				for i := range c.Events {
					c.Events[i].Payload = annals.Payload{SerializerID: 4, Manifest: fmt.Sprintf("%d/%d/%d", w, round, size), Data: []byte{byte(i)}}
				}
				_, err := h.send(h.ctx, h.store, c)
				if err == nil {
					break
				}
				if !isConflict(err) || try == mostTries {
					errs[w] = err
					return
				}
			}
		}
	})
	for w, err := range errs {
		if err != nil {
			h.Fatalf("writer %d of %d: got error %v, want none but conflicts", w, writers, err)
		}
	}
	seen := map[string]bool{}
	es := h.replay(id, 1, annals.MaxSeqNr)
	for len(es) > 0 {
		var w, round, size int
		if _, err := fmt.Sscanf(es[0].Manifest, "%d/%d/%d", &w, &round, &size); err != nil || size > len(es) || seen[es[0].Manifest] {
			h.Fatalf("batch at number %d: got manifest %q with %d events left, want a whole batch once", es[0].SeqNr, es[0].Manifest, len(es))
		}
		for i, e := range es[:size] {
			if e.Manifest != es[0].Manifest || int(e.Data[0]) != i {
				h.Fatalf("batch %q of %d events: got %q, event %d, at place %d", es[0].Manifest, size, e.Manifest, e.Data[0], i)
			}
		}
		seen[es[0].Manifest] = true
		es = es[size:]
	}
	h.wantEqual(len(seen), writers*rounds, "batches found after %d writers with %d each", writers, rounds)
}
