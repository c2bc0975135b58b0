package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
)

var raceCases = []testCase{
	{id: "RACE-1", about: "of eight writers with the same After one wins, at every number", needs: needs(events), run: oneWinner},
	{id: "RACE-2", about: "a writer whose After is the end of an older commit gets ErrConflict", needs: needs(events), run: staleWriters},
	{id: "RACE-3", about: "a writer that was paused during a snapshot and a delete gets ErrConflict", needs: needs(events, fenceAfterDelete), run: pausedWriter},
	{id: "RACE-4", about: "of eight first writers of an entity one wins, and none when its events were deleted", needs: needs(events, fenceAfterDelete), run: firstWriters},
	{id: "RACE-5", about: "no number is given twice when writers and deletes race", needs: needs(events, fenceAfterDelete), run: writersBesideDeletes},
	{id: "RACE-6", about: "the snapshot of a commit that is refused is not stored", needs: needs(events, commitSnapshot, snapshots), run: losersSnapshot},
	{id: "RACE-7", about: "many entities at once recover, append and recover again", needs: needs(events), run: coldStart},
}

func isConflict(err error) bool { return errors.Is(err, annals.ErrConflict) }

// named is a commit whose events name their writer in the manifest.
func (h *harness) named(id annals.PersistenceID, after annals.SeqNr, n int, writer string) annals.Commit {
	c := h.commit(id, after, n)
	for i := range c.Events {
		c.Events[i].Manifest = writer
	}
	return c
}

// race lets n writers append with the same After. One must win, and all others must get ErrConflict.
func (h *harness) race(stores []annals.Store, id annals.PersistenceID, after annals.SeqNr, n int) (winner string) {
	h.Helper()
	errs := make([]error, n)
	together(n, func(w int) {
		_, errs[w] = h.send(h.ctx, stores[w%len(stores)], h.named(id, after, h.batch(1+w%2), fmt.Sprintf("writer %d", w)))
	})
	for w, err := range errs {
		switch {
		case err == nil && winner != "":
			h.Fatalf("%d writers after %d: got %q and %q as winners, want one", n, after, winner, fmt.Sprintf("writer %d", w))
		case err == nil:
			winner = fmt.Sprintf("writer %d", w)
		case !isConflict(err):
			h.Fatalf("writer %d of %d after %d: got error %v, want none or a conflict", w, n, after, err)
		}
	}
	if winner == "" {
		h.Fatalf("%d writers after %d: got conflicts for all, want one winner", n, after)
	}
	return winner
}

func oneWinner(h *harness) {
	h.oneWinnerOf(h.store)
}

// oneWinnerOf lets writers race that use several stores on the same data.
func (h *harness) oneWinnerOf(stores ...annals.Store) {
	h.Helper()
	const writers = 8
	id := h.id()
	var winners []string // of each number
	for range h.volume(60, 12) {
		after := annals.SeqNr(len(winners))
		winner := h.race(stores, id, after, writers)
		for range h.last(id) - after {
			winners = append(winners, winner)
		}
	}
	es := h.replay(id, 1, annals.MaxSeqNr)
	if len(es) != len(winners) {
		h.Fatalf("replay after %d races: got %s, want %d events", len(winners), span(es), len(winners))
	}
	for i, e := range es {
		if e.SeqNr != annals.SeqNr(i+1) || e.Manifest != winners[i] {
			h.Fatalf("at place %d: got number %d by %s, want %d by %s", i+1, e.SeqNr, e.Manifest, i+1, winners[i])
		}
	}
}

func staleWriters(h *harness) {
	id := h.id()
	ends := []annals.SeqNr{0}
	for _, n := range []int{1, 3, 2, 1, 4} {
		ends = append(ends, h.append(h.commit(id, ends[len(ends)-1], h.batch(n))).SeqNr)
	}
	last := ends[len(ends)-1]
	h.wantStale(id, ends[:len(ends)-1], "after other commits")
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, last)
	h.wantLast(id, last)
}

// wantStale checks that appends with After one of ends get ErrConflict.
func (h *harness) wantStale(id annals.PersistenceID, ends []annals.SeqNr, when string) {
	h.Helper()
	for _, after := range ends {
		for _, n := range []int{1, 2, 20} {
			n := h.batch(n)
			r, err := h.journal().Append(h.ctx, h.named(id, after, n, "stale"))
			if !isConflict(err) {
				h.Errorf("append %d events after %d %s: got receipt for %d and error %v, want a conflict", n, after, when, r.SeqNr, err)
			}
		}
	}
}

// pausedWriter is about writers that read the last number and were paused while others appended, saved a snapshot and deleted the events that it
// covers.
func pausedWriter(h *harness) {
	id := h.id()
	ends := []annals.SeqNr{0}
	for _, n := range []int{1, 2, 2, 1, 4} {
		ends = append(ends, h.append(h.commit(id, ends[len(ends)-1], h.batch(n))).SeqNr)
	}
	last := ends[len(ends)-1]
	if h.caps.Snapshots {
		h.saveSnapshot(snapshotOf(id, last))
	}
	h.deleteTo(id, ends[2])
	h.wantStale(id, ends[:len(ends)-1], "after a delete of the first numbers")
	h.wantReplay(id, 1, annals.MaxSeqNr, ends[2]+1, last)
	h.deleteTo(id, last-1) // perhaps within a commit
	h.wantStale(id, ends[:len(ends)-1], "after a delete of all numbers but the last")
	h.wantReplay(id, 1, annals.MaxSeqNr, last, last)
	h.deleteTo(id, annals.MaxSeqNr)
	h.wantStale(id, ends[:len(ends)-1], "after a delete of all numbers")
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 0)
	h.wantLast(id, last)

	next := h.write(id, last, 1)
	h.deleteTo(id, annals.MaxSeqNr)
	h.wantStale(id, ends, "after a second delete")
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 0)
	h.wantLast(id, next)
}

func firstWriters(h *harness) {
	stores := []annals.Store{h.store}
	for range h.volume(10, 3) {
		id := h.id()
		h.race(stores, id, 0, 8)
		last := h.last(id)
		h.deleteTo(id, annals.MaxSeqNr)
		errs := make([]error, 8)
		together(len(errs), func(w int) { _, errs[w] = h.send(h.ctx, h.store, h.commit(id, 0, 1)) })
		for w, err := range errs {
			h.wantKind(err, annals.ErrConflict, "writer %d after 0 of an entity whose %d events are deleted", w, last)
		}
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, 0)
		h.race(stores, id, last, 8)
	}
}

// writersBesideDeletes lets writers also delete all events from time to time, and counts the receipts for each number. A deleted number must not
// be given again.
func writersBesideDeletes(h *harness) {
	const writers = 4
	id, rounds := h.id(), h.volume(40, 10)
	given := make([]atomic.Int32, writers*rounds+1)
	errs := make([]error, writers)
	together(writers, func(w int) {
		for landed, try := 0, 0; landed < rounds; try++ {
			after, err := h.journal().LastSeqNr(h.ctx, id)
			if err == nil {
				_, err = h.send(h.ctx, h.store, h.commit(id, after, 1))
			}
			if err == nil {
				landed++
				if n := int(after) + 1; n < len(given) {
					given[n].Add(1)
				}
				if landed%3 == w%3 {
					err = h.journal().DeleteTo(h.ctx, id, annals.MaxSeqNr)
				}
			}
			if err != nil && !isConflict(err) || try == mostTries {
				errs[w] = fmt.Errorf("writer %d after %d tries: %w", w, try, err)
				return
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		h.Fatalf("%d writers that delete now and then: got error %v, want none but conflicts", writers, err)
	}
	h.wantLast(id, annals.SeqNr(writers*rounds))
	for n := 1; n <= writers*rounds; n++ {
		if times := given[n].Load(); times != 1 {
			h.Errorf("number %d: got %d receipts, want 1", n, times)
		}
	}
}

func losersSnapshot(h *harness) {
	id := h.id()
	h.write(id, 0, 3)
	c := h.commit(id, 0, 1)
	s := snapshotOf(id, 1)
	s.Payload = payload(999)
	c.Snapshot = &s
	_, err := h.journal().Append(h.ctx, c)
	h.wantKind(err, annals.ErrConflict, "append after 0 to an entity with three events, with a snapshot")
	if got, ok, err := h.store.Snapshots().Latest(h.ctx, id, annals.SnapshotCriteria{}); err != nil || ok && equal(got.Payload, s.Payload) {
		h.Errorf("newest snapshot after a lost race: got %v %s, error %v, want not the loser's", ok, show(got.Payload), err)
	}
}

// coldStart finds stores whose calls hold one connection of a pool while they wait for another: when no connection is left, all of them wait for
// ever.
func coldStart(h *harness) {
	entities := h.volume(64, 24)
	ctx, cancel := context.WithTimeout(h.ctx, time.Minute)
	defer cancel()
	h.ctx = ctx
	ids := make([]annals.PersistenceID, entities)
	for i := range ids {
		ids[i] = h.id()
	}
	errs := make([]error, entities)
	together(entities, func(i int) {
		for after := annals.SeqNr(0); after < 2 && errs[i] == nil; after++ {
			_, last, err := h.recover(h.store, ids[i])
			if err == nil && last != after {
				err = fmt.Errorf("got last number %d, want %d", last, after)
			}
			if err == nil {
				_, err = h.send(h.ctx, h.store, h.commit(ids[i], after, 1))
			}
			errs[i] = err
		}
	})
	if err := errors.Join(errs...); err != nil {
		h.Fatalf("%d entities at once: %v", entities, err)
	}
	for _, id := range ids {
		h.wantRecovered(h.store, id, 2)
	}
}
