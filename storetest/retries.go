package storetest

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
)

var retryCases = []testCase{
	{id: "RETRY-1", about: "a commit that is sent again is recognised, and stored once", needs: needs(events, repeatable), run: sentAgain},
	{id: "RETRY-2", about: "a commit that is sent again after other commits is recognised", needs: needs(events, repeatable), run: sentAgainLater},
	{id: "RETRY-3", about: "a commit that is sent again after its events were deleted is recognised", needs: needs(events, repeatable, fenceAfterDelete), run: sentAgainAfterDelete},
	{id: "RETRY-4", about: "duplicates at the same time are one write", needs: needs(events, repeatable), run: duplicatesInFlight},
	{id: "RETRY-5", about: "the zero WriteID is never recognised", needs: needs(events), run: zeroWriteID},
	{id: "RETRY-7", about: "writers store each commit once when answers get lost", needs: needs(events, repeatable), run: lostAnswers},
	{id: "RETRY-8", about: "a repeated commit with a snapshot is recognised", needs: needs(events, repeatable, commitSnapshot, snapshots), run: sentAgainWithSnapshot},
	{id: "RETRY-9", about: "the answer to a commit is lost between store and server", needs: needs(events, repeatable, loseAnswer), run: lostByServer},
	{id: "RETRY-10", about: "the answer to a state write is lost between store and server", needs: needs(states, idempotentState, loseAnswer), run: stateLostByServer},
	{id: "RETRY-11", about: "without Repeatable a commit that is sent again is never stored twice", needs: needs(events), unless: needs(repeatable), run: neverDoubled},
}

// wantRepeated checks that c, which was stored with receipt first, is recognised when it is sent again.
func (h *harness) wantRepeated(c annals.Commit, first annals.Receipt, when string) {
	h.Helper()
	r, err := h.send(h.ctx, h.store, c)
	if err != nil || r.SeqNr != first.SeqNr || !r.Repeated || !r.Time.Equal(first.Time) {
		h.Errorf("append after %d sent again %s: got %+v, error %v, want the first receipt, %+v, as Repeated", c.After, when, r, err, first)
	}
}

func sentAgain(h *harness) {
	id := h.id()
	var after annals.SeqNr
	for _, n := range []int{1, 2, 10} {
		c := h.commit(id, after, h.batch(n))
		r := h.append(c)
		if r.Repeated {
			h.Errorf("first try after %d: got Repeated, want not", after)
		}
		h.wantRepeated(c, r, "once")
		h.wantRepeated(c, r, "twice")
		after = r.SeqNr
		h.wantLast(id, after)
	}
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, after)
}

func sentAgainLater(h *harness) {
	id := h.id()
	var commits []annals.Commit
	var receipts []annals.Receipt
	var after annals.SeqNr
	for i := range 12 {
		c := h.commit(id, after, h.batch(1+i%3))
		commits, receipts = append(commits, c), append(receipts, h.append(c))
		after = receipts[i].SeqNr
	}
	for i, c := range commits {
		h.wantRepeated(c, receipts[i], "after later writes")
	}
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, after)
	h.wantLast(id, after)
}

// sentAgainAfterDelete checks that deletes keep the WriteIDs. The time in the receipt may become that of the delete.
func sentAgainAfterDelete(h *harness) {
	id := h.id()
	var commits []annals.Commit
	var receipts []annals.Receipt
	var after annals.SeqNr
	for i, n := range []int{1, 3, 1, 2} {
		commits = append(commits, h.commit(id, after, h.batch(n)))
		receipts = append(receipts, h.append(commits[i]))
		after = receipts[i].SeqNr
	}
	for _, to := range []annals.SeqNr{2, commits[2].After, after - 1, annals.MaxSeqNr} {
		h.deleteTo(id, to)
		for i, c := range commits {
			r, err := h.send(h.ctx, h.store, c)
			if err != nil || !r.Repeated || r.SeqNr != c.After+annals.SeqNr(len(c.Events)) || r.Time.Before(receipts[i].Time) {
				h.Errorf("append with After %d sent again after a delete to %d: got %+v, error %v, want Repeated, and no earlier than %+v", c.After, to, r, err, receipts[i])
			}
		}
		h.wantReplay(id, 1, annals.MaxSeqNr, min(to, after)+1, after)
		h.wantLast(id, after)
	}
}

func duplicatesInFlight(h *harness) {
	const copies = 8
	id := h.id()
	var after annals.SeqNr
	for round := range h.volume(20, 5) {
		c := h.commit(id, after, h.batch(1+round%3))
		receipts, errs := make([]annals.Receipt, copies), make([]error, copies)
		together(copies, func(i int) { receipts[i], errs[i] = h.send(h.ctx, h.store, c) })
		fresh := 0
		for i, r := range receipts {
			if errs[i] != nil || r.SeqNr != after+annals.SeqNr(len(c.Events)) || !r.Time.Equal(receipts[0].Time) {
				h.Fatalf("duplicate %d of an append after %d: got %+v, error %v, want number %d at %v", i, after, r, errs[i], after+annals.SeqNr(len(c.Events)), receipts[0].Time)
			}
			if !r.Repeated {
				fresh++
			}
		}
		if fresh > 1 {
			h.Errorf("%d duplicates of an append after %d: got %d that were not Repeated, want at most 1", copies, after, fresh)
		}
		after = receipts[0].SeqNr
		h.wantLast(id, after)
	}
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, after)
}

func zeroWriteID(h *harness) {
	id := h.id()
	for after := range annals.SeqNr(3) {
		c := h.commit(id, after, 1)
		c.WriteID = annals.WriteID{}
		h.append(c)
		r, err := h.journal().Append(h.ctx, c)
		h.wantKind(err, annals.ErrConflict, "second append after %d without a WriteID (receipt %+v)", after, r)
	}
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 3)
}

// forgetful is a Store that loses the answer to every third append that was stored.
type forgetful struct {
	faulty.Store
	writes atomic.Int64
}

func newForgetful(s annals.Store) *forgetful {
	f := &forgetful{Store: faulty.Store{Store: s}}
	f.Around = func(_ context.Context, c *faulty.Call, run func() error) error {
		err := run()
		if c.Op == "append" && err == nil && f.writes.Add(1)%3 == 0 {
			return faulty.Lost(c)
		}
		return err
	}
	return f
}

func lostAnswers(h *harness) {
	const writers = 4
	id, rounds := h.id(), h.volume(30, 10)
	s := newForgetful(h.store)
	landed, errs := make([]map[annals.SeqNr]annals.WriteID, writers), make([]error, writers)
	together(writers, func(w int) {
		landed[w] = map[annals.SeqNr]annals.WriteID{}
		for try := 0; len(landed[w]) < rounds; try++ {
			after, err := s.Journal().LastSeqNr(h.ctx, id)
			if err != nil {
				errs[w] = err
				return
			}
			c := h.commit(id, after, 1)
			r, err := h.send(h.ctx, s, c)
			switch {
			case err == nil:
				landed[w][r.SeqNr] = c.WriteID
			case !isConflict(err) || try == mostTries:
				errs[w] = err
				return
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		h.Fatalf("%d writers whose answers get lost: got error %v, want none but conflicts", writers, err)
	}
	es := h.replay(id, 1, annals.MaxSeqNr)
	h.wantEvents("replay after lost answers", es, id, 1, annals.SeqNr(writers*rounds))
	for w := range landed {
		for n, writeID := range landed[w] {
			if int(n) <= len(es) && es[n-1].WriteID != (annals.WriteID{}) && es[n-1].WriteID != writeID {
				h.Errorf("number %d was acknowledged to writer %d as %v: got %v stored", n, w, writeID, es[n-1].WriteID)
			}
		}
	}
}

func sentAgainWithSnapshot(h *harness) {
	id := h.id()
	c := h.commit(id, 0, h.batch(3))
	last := annals.SeqNr(len(c.Events))
	s := snapshotOf(id, last)
	c.Snapshot = &s
	r := h.append(c)
	h.wantRepeated(c, r, "with its snapshot")
	h.write(id, last, 1)
	h.wantRepeated(c, r, "with its snapshot, after another write")
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, last+1)
	h.wantSnapshot(id, annals.SnapshotCriteria{}, last)
}

// lostByServer allows the store to answer ErrUnknown, or to find out by itself that its write was stored.
func lostByServer(h *harness) {
	id := h.id()
	var after annals.SeqNr
	for i := range 6 {
		c := h.commit(id, after, h.batch(1+i%3))
		want := after + annals.SeqNr(len(c.Events))
		end := h.cfg.LoseAnswer(h, h.store)
		r, err := h.journal().Append(h.ctx, c)
		end()
		if err != nil && !errors.Is(err, annals.ErrUnknown) || err == nil && r.SeqNr != want {
			h.Fatalf("append after %d whose answer got lost: got %+v, error %v, want number %d or an unknown outcome", after, r, err, want)
		}
		if r, err = h.send(h.ctx, h.store, c); err != nil || r.SeqNr != want || !r.Repeated {
			h.Fatalf("append after %d sent again: got %+v, error %v, want number %d, Repeated", after, r, err, want)
		}
		after = want
	}
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, after)
}

func stateLostByServer(h *harness) {
	id := h.id()
	for after := range annals.SeqNr(4) {
		w := stateWrite(id, after)
		end := h.cfg.LoseAnswer(h, h.store)
		r, err := h.store.States().Put(h.ctx, w)
		end()
		if err != nil && !errors.Is(err, annals.ErrUnknown) || err == nil && r.SeqNr != after+1 {
			h.Fatalf("put state after %d whose answer got lost: got %+v, error %v, want revision %d or an unknown outcome", after, r, err, after+1)
		}
		if r, err = h.store.States().Put(h.ctx, w); err != nil || r.SeqNr != after+1 || !r.Repeated {
			h.Fatalf("put state after %d sent again: got %+v, error %v, want revision %d, Repeated", after, r, err, after+1)
		}
	}
	h.wantState(id, 4)
}

// neverDoubled allows a store without Repeatable to recognise a recent write.
func neverDoubled(h *harness) {
	id := h.id()
	c := h.commit(id, 0, h.batch(2))
	last := h.append(c).SeqNr
	r, err := h.journal().Append(h.ctx, c)
	if !isConflict(err) && (err != nil || r.SeqNr != last) {
		h.Errorf("append after 0 sent again: got %+v, error %v, want a conflict or the same number %d", r, err, last)
	}
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, last)
	h.wantLast(id, last)
}
