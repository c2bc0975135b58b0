package storetest

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/verify"
)

// loadWriters is how many entities soundUnderLoad writes to at a time, and loadRounds how often each of them at least.
const (
	loadWriters = 6
	loadRounds  = 10
)

// soundUnderLoad writes, saves snapshots, deletes and forgets, as far as the store claims, and verifies the store again and again meanwhile.
func soundUnderLoad(h *harness) {
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	var wg sync.WaitGroup
	var rounds atomic.Int64
	ids := make([]annals.PersistenceID, loadWriters)
	loads := map[string]*load{}
	for w := range ids {
		ids[w] = h.id()
		l := &load{harness: h, id: ids[w]}
		loads[l.id.EntityID()] = l
		wg.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				l.rounds.Lock()
				err := l.round(ctx, round)
				l.rounds.Unlock()
				if err != nil && ctx.Err() == nil && !errors.Is(err, annals.ErrConflict) {
					h.Errorf("write to %q while the store is verified: got error %v, want none", l.id, err)
					return
				}
				rounds.Add(1)
				runtime.Gosched() // the verification may share the processor
			}
		})
	}
	defer wg.Wait()
	defer cancel()
	for run := 0; run < h.volume(5, 2) || rounds.Load() < loadWriters*loadRounds && !h.Failed(); run++ {
		o := verify.Options{Settle: 1} // settling waits for what it needs
		if run%2 == 1 {
			o.IDs = ids
		}
		for step, err := range verify.Store(ctx, settling{h.store, loads, map[annals.PersistenceID]bool{}}, o) {
			if err != nil {
				h.Fatalf("verify while others write: got error %v, want none", err)
			}
			for _, f := range step.Found {
				h.Errorf("verify while others write: found %s %q %d to %d: %v, want nothing", f.Code, f.ID, f.From, f.To, f.Damage)
			}
		}
	}
}

// settling is a store of one run. A second look waits until the writes that the first one saw have ended, and no delete begins during it.
type settling struct {
	annals.Store
	loads  map[string]*load
	looked map[annals.PersistenceID]bool // and something was found
}

func (s settling) Unwrap() annals.Store { return s.Store }

func (s settling) Check(ctx context.Context, id annals.PersistenceID, see func(ability.Stored)) ([]*ability.Damage, error) {
	checker, err := ability.Of[ability.Checker](s.Store)
	if err != nil {
		return nil, err
	}
	if l := s.loads[id.EntityID()]; l != nil && s.looked[id] {
		l.rounds.Lock()
		l.deletes.Lock()
		l.rounds.Unlock()
		defer l.deletes.Unlock()
	}
	found, err := checker.Check(ctx, id, see)
	s.looked[id] = s.looked[id] || len(found) > 0
	return found, err
}

// load is what one writer does.
type load struct {
	*harness
	id      annals.PersistenceID
	last    annals.SeqNr
	rounds  sync.Mutex // held in each round
	deletes sync.Mutex // held while events are deleted, within rounds
}

func (l *load) round(ctx context.Context, round int) (err error) {
	caps, n := l.caps, l.batch(1+round%3)
	c := l.commit(l.id, l.last, n)
	if caps.CommitSnapshot && round%5 == 4 {
		saved := snapshotOf(l.id, l.last+annals.SeqNr(n))
		c.Snapshot = &saved
	}
	r, err := l.store.Journal().Append(ctx, c)
	if err != nil {
		l.last, _ = l.store.Journal().LastSeqNr(ctx, l.id)
		return err
	}
	l.last = r.SeqNr
	if caps.States {
		state := annals.NewPersistenceID("State", l.id.EntityID())
		old, _, err := l.store.States().Get(ctx, state)
		if err != nil {
			return err
		}
		w := stateWrite(state, old.Revision)
		if round%7 == 6 && caps.DeletesStates {
			w.Payload = annals.Payload{}
			_, err = l.store.States().Delete(ctx, w)
		} else {
			_, err = l.store.States().Put(ctx, w)
		}
		if err != nil {
			return err
		}
	}
	switch round % 10 {
	case 3:
		if !caps.Snapshots {
			return nil
		}
		return l.store.Snapshots().Save(ctx, snapshotOf(l.id, l.last))
	case 5:
		l.deletes.Lock()
		defer l.deletes.Unlock()
		return l.delete(ctx, l.last-1, true)
	case 9:
		l.deletes.Lock()
		defer l.deletes.Unlock()
		f, err := ability.Of[ability.Forgetter](l.store)
		if err != nil {
			return nil
		}
		if err := l.delete(ctx, l.last, false); err != nil {
			return err
		}
		if _, err := f.Forget(ctx, ability.Forgetting{ID: l.id}); err != nil {
			return err
		}
		l.last, err = l.store.Journal().LastSeqNr(ctx, l.id)
		return err
	}
	return nil
}

// delete deletes events, after a snapshot of them or with all snapshots.
func (l *load) delete(ctx context.Context, to annals.SeqNr, saved bool) error {
	if l.store.Capabilities().Snapshots {
		var err error
		if saved {
			err = l.store.Snapshots().Save(ctx, snapshotOf(l.id, l.last))
		} else {
			err = l.store.Snapshots().Delete(ctx, l.id, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
		}
		if err != nil {
			return err
		}
	}
	return l.store.Journal().DeleteTo(ctx, l.id, to)
}
