package storetest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

var guardCases = []testCase{
	{id: "GUARD-1", about: "of two transactions that read both entities and append to one each, one is stored", needs: needs(events, guardsReads), run: guardsEvents},
	{id: "GUARD-2", about: "of two transactions that read both states and write one each, one is stored", needs: needs(states, guardsReads), run: guardsStates},
	{id: "GUARD-3", about: "a transaction and the plain append that it has not seen have an order that a second transaction sees, too", needs: needs(events, guardsReads), run: guardsBesideAppends},
	{id: "GUARD-4", about: "a transaction whose reads are as they were is stored", needs: needs(events), run: guardsNothingElse},
	{id: "GUARD-5", about: "a transaction that has read an entity does not write after another number", needs: needs(events, guardsReads), run: guardsEarlierReads},
}

// A numbering reads the number of an entity.
type numbering func(ctx context.Context, s annals.Store, id annals.PersistenceID) (annals.SeqNr, error)

// numberings are the ways to read the events of an entity to their end.
var numberings = []numbering{
	func(ctx context.Context, s annals.Store, id annals.PersistenceID) (annals.SeqNr, error) {
		return s.Journal().LastSeqNr(ctx, id)
	},
	func(ctx context.Context, s annals.Store, id annals.PersistenceID) (annals.SeqNr, error) {
		return ability.Recover(ctx, s, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
	},
	func(ctx context.Context, s annals.Store, id annals.PersistenceID) (last annals.SeqNr, err error) {
		for e, err := range s.Journal().Replay(ctx, id, 1, annals.MaxSeqNr) {
			if err != nil {
				return 0, err
			}
			last = e.SeqNr
		}
		return last, nil
	},
}

func revision(ctx context.Context, s annals.Store, id annals.PersistenceID) (annals.SeqNr, error) {
	state, _, err := s.States().Get(ctx, id)
	return state.Revision, err
}

func guardsEvents(h *harness) {
	for round := range h.volume(90, 30) {
		read := numberings[round%len(numberings)]
		wantNoSkew(h, func(id annals.PersistenceID) { h.write(id, 0, 1) }, read, func(ctx context.Context, in annals.Store, id annals.PersistenceID) error {
			_, err := in.Journal().Append(ctx, h.commit(id, 1, 1))
			return err
		})
	}
}

func guardsStates(h *harness) {
	for range h.volume(60, 20) {
		wantNoSkew(h, func(id annals.PersistenceID) { h.put(id, 0) }, revision, func(ctx context.Context, in annals.Store, id annals.PersistenceID) error {
			_, err := in.States().Put(ctx, stateWrite(id, 1))
			return err
		})
	}
}

// wantNoSkew lets two transactions race. Each reads two entities and writes one of them, another one than the other transaction, if both are as
// they began.
func wantNoSkew(h *harness, begin func(id annals.PersistenceID), read numbering, write func(context.Context, annals.Store, annals.PersistenceID) error) {
	h.Helper()
	ids := []annals.PersistenceID{h.id(), h.id()}
	for _, id := range ids {
		begin(id)
	}
	errChanged := errors.New("changed")
	errs := make([]error, len(ids))
	together(len(ids), func(i int) {
		errs[i] = h.inTx(h.ctx, func(ctx context.Context, in annals.Store) error {
			for _, id := range ids {
				if n, err := read(ctx, in, id); err != nil || n != 1 {
					return errors.Join(err, errChanged)
				}
			}
			return write(ctx, in, ids[i])
		})
	})
	stored := 0
	for i, err := range errs {
		n, failed := read(h.ctx, h.store, ids[i])
		switch {
		case failed != nil:
			h.Fatalf("read after a race: got error %v, want none", failed)
		case err == nil && n == 2:
			stored++
		case err == nil || n != 1 || !isConflict(err) && !errors.Is(err, annals.ErrUnavailable) && !errors.Is(err, errChanged):
			h.Fatalf("transaction that reads two entities and writes one: got error %v and number %d, want a write or a conflict", err, n)
		}
	}
	if stored > 1 {
		h.Fatalf("two transactions that each read what the other one writes: got both stored, want one of them")
	}
}

// In each round a transaction reads a and writes b. When it has read a, a is appended to; then a second transaction reads both and writes c. The
// first one has read a before the append, and the second one has read b before the first one: both cannot be stored.
func guardsBesideAppends(h *harness) {
	both := errors.New("there is nothing to find out")
	for round := range h.volume(90, 30) {
		read := numberings[round%len(numberings)]
		a, b, c := h.id(), h.id(), h.id()
		h.write(a, 0, 1)
		var before, after atomic.Bool
		seen, see := context.WithCancel(h.ctx)
		together(2, func(i int) {
			if i == 0 {
				defer see()
				err := h.inTx(h.ctx, func(ctx context.Context, in annals.Store) error {
					if n, err := read(ctx, in, a); err != nil || n != 1 {
						return errors.Join(err, both)
					}
					see()
					_, err := in.Journal().Append(ctx, h.commit(b, 0, 1))
					return err
				})
				before.Store(err == nil)
				return
			}
			<-seen.Done()
			if _, err := h.send(h.ctx, h.store, h.commit(a, 1, 1)); err != nil {
				h.Errorf("append beside a transaction that only reads the entity: got error %v, want none", err)
				return
			}
			err := h.inTx(h.ctx, func(ctx context.Context, in annals.Store) error {
				na, errA := read(ctx, in, a)
				nb, errB := read(ctx, in, b)
				if err := errors.Join(errA, errB); err != nil || na != 2 || nb != 0 {
					return errors.Join(err, both)
				}
				_, err := in.Journal().Append(ctx, h.commit(c, 0, 1))
				return err
			})
			after.Store(err == nil)
		})
		if before.Load() && after.Load() {
			h.Fatalf("two transactions that have each read what the other one replaces: got both stored, want one of them")
		}
	}
}

// In each round a transaction reads an entity until another writer has appended to it, or for a while. It appends after the number that it has
// read last.
func guardsEarlierReads(h *harness) {
	for round := range h.volume(90, 30) {
		read, id := numberings[round%len(numberings)], h.id()
		h.write(id, 0, 1)
		seen, see := context.WithCancel(h.ctx)
		together(2, func(i int) {
			if i == 1 {
				<-seen.Done()
				if _, err := h.send(h.ctx, h.store, h.commit(id, 1, 1)); err != nil && !isConflict(err) {
					h.Errorf("append beside a transaction: got error %v, want a conflict or none", err)
				}
				return
			}
			defer see()
			var first, last annals.SeqNr
			err := h.inTx(h.ctx, func(ctx context.Context, in annals.Store) (err error) {
				first, err = read(ctx, in, id)
				last = first
				see()
				for tries := 0; err == nil && last == first && tries < 50; tries++ {
					runtime.Gosched() // the other writer may share the processor
					last, err = read(ctx, in, id)
				}
				if err != nil {
					return err
				}
				_, err = in.Journal().Append(ctx, h.commit(id, last, 1))
				return err
			})
			if err == nil && last != first {
				h.Errorf("transaction that has read number %d and then %d, and appends: got no error, want a conflict", first, last)
			} else if err != nil && !isConflict(err) && !errors.Is(err, annals.ErrUnavailable) {
				h.Errorf("transaction that reads an entity twice, and appends: got error %v, want a conflict or none", err)
			}
		})
	}
}

// guardsNothingElse reads, in every way, entities of all kinds that no other transaction writes to.
func guardsNothingElse(h *harness) {
	target := h.id()
	ids := []annals.PersistenceID{h.id(), h.id(), h.id(), h.id(), h.id()}
	h.write(ids[1], 0, 3)
	h.deleteTo(ids[2], h.write(ids[2], 0, 5)-2)
	h.deleteTo(ids[3], h.write(ids[3], 0, 4))
	if s, err := ability.Of[ability.Skipper](h.store); err == nil {
		if err := s.SkipTo(h.ctx, ids[4], h.write(ids[4], 0, 2), 9); err != nil {
			h.Fatalf("skip to 9: got error %v, want none", err)
		}
	}
	reads := numberings
	if h.caps.States {
		h.put(ids[1]+"-state", 0)
		if h.put(ids[2]+"-state", 0); h.caps.DeletesStates {
			h.deleteState(ids[2]+"-state", 1)
		}
		reads = append(slices.Clip(reads), func(ctx context.Context, s annals.Store, id annals.PersistenceID) (annals.SeqNr, error) {
			return revision(ctx, s, id+"-state")
		})
	}
	for after, read := range reads {
		err := h.inTx(h.ctx, func(ctx context.Context, in annals.Store) error {
			for _, id := range append(ids, target) {
				if _, err := read(ctx, in, id); err != nil {
					return err
				}
			}
			_, err := in.Journal().Append(ctx, h.commit(target, annals.SeqNr(after), 1))
			return err
		})
		h.wantKind(err, nil, "transaction whose reads stay as they are")
	}
	h.wantLast(target, annals.SeqNr(len(reads)))
	err := h.inTx(h.ctx, func(ctx context.Context, in annals.Store) error {
		for i, id := range ids {
			if _, err := reads[i%len(reads)](ctx, in, id); err != nil {
				return err
			}
		}
		return nil
	})
	h.wantKind(err, nil, "transaction that only reads")
}
