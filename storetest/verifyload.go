package storetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

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
	for w := range ids {
		ids[w] = h.id()
		wg.Go(func() {
			l := load{harness: h, id: ids[w]}
			for round := 0; ctx.Err() == nil; round++ {
				if err := l.round(ctx, round); err != nil && ctx.Err() == nil && !errors.Is(err, annals.ErrConflict) {
					h.Errorf("write to %q while the store is verified: got error %v, want none", l.id, err)
					return
				}
				rounds.Add(1)
			}
		})
	}
	defer wg.Wait()
	defer cancel()
	for run := 0; run < h.volume(5, 2) || rounds.Load() < loadWriters*loadRounds && !h.Failed(); run++ {
		o := verify.Options{Settle: time.Second} // longer than a delete takes
		if run%2 == 1 {
			o.IDs = ids
		}
		for step, err := range verify.Store(ctx, h.store, o) {
			if err != nil {
				h.Fatalf("verify while others write: got error %v, want none", err)
			}
			for _, f := range step.Found {
				h.Errorf("verify while others write: found %s %q %d to %d: %v, want nothing", f.Code, f.ID, f.From, f.To, f.Damage)
			}
		}
	}
}

// load is what one writer does.
type load struct {
	*harness
	id   annals.PersistenceID
	last annals.SeqNr
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
		return l.delete(ctx, l.last-1, true)
	case 9:
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
