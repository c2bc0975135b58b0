package hosttest

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/memstore"
)

func TestRecovery(t *testing.T) {
	t.Parallel()
	Recovery(t, memstore.New())
}

// On a store without Times, events have none in memory either.
func TestRecoveryWithoutTimes(t *testing.T) {
	t.Parallel()
	Recovery(t, timeless{memstore.New()})
}

type timeless struct{ annals.Store }

func (s timeless) Capabilities() annals.Capabilities {
	c := s.Store.Capabilities()
	c.Times, c.EventTimes, c.EventQueries, c.SnapshotQueries = false, false, false, false
	return c
}
func (s timeless) Journal() annals.Journal { return timelessJournal{s.Store.Journal()} }

type timelessJournal struct{ annals.Journal }

func (j timelessJournal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	r, err := j.Journal.Append(ctx, c)
	r.Time = time.Time{}
	return r, err
}

func (j timelessJournal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		for e, err := range j.Journal.Replay(ctx, id, from, to) {
			e.Time = time.Time{}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Each mutant breaks what some of the cases rely on, and those cases must fail on it.
func TestRecoveryFindsMutants(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]struct {
		store annals.Store
		found []string
	}{
		"receipts with another time":      {lateReceipts{memstore.New()}, []string{"InfoOfEvents", "InfoOfStates"}},
		"events without metadata":         {plainEvents{memstore.New()}, []string{"InfoOfEvents"}},
		"replays end at number 2":         {shortReplays{memstore.New()}, []string{"OtherSnapshot"}},
		"deletes do nothing":              {noDeletes{memstore.New()}, []string{"OtherSnapshotWithoutEvents"}},
		"one snapshot is kept, the first": {firstSnapshots{memstore.New()}, []string{"OtherSnapshot", "LiftedSnapshot", "OtherSnapshotWithoutEvents"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range recoveryCases(m.store.Capabilities()) {
				for _, want := range m.found {
					if c.name == want && c.check(t.Context(), m.store) == nil {
						t.Errorf("%s does not find it", want)
					}
				}
			}
		})
	}
}

// Guards the contexts.InTx in sourced.finish: within a transaction a receipt may say another time than the events get.
func TestNoSnapshotOfAReceiptWithinATransaction(t *testing.T) {
	t.Parallel()
	s, b := memstore.New(), ledger
	b.SnapshotEvery = 1
	err := s.InTx(t.Context(), func(ctx context.Context, _ memstore.Tx, in annals.Store) error {
		r, err := aggregate.New(lateReceipts{in}, b, aggregate.Options{})
		if err != nil {
			return err
		}
		_, err = r.Ask(ctx, "a", 1)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Snapshots().Latest(t.Context(), "Ledger|a", annals.SnapshotCriteria{}); ok || err != nil {
		t.Errorf("there is a snapshot: %v, %v", ok, err)
	}
	if last, err := s.Journal().LastSeqNr(t.Context(), "Ledger|a"); last != 1 || err != nil {
		t.Errorf("the last number is %d, %v, want 1", last, err)
	}
}

type lateReceipts struct{ annals.Store }

func (s lateReceipts) Journal() annals.Journal   { return lateJournal{s.Store.Journal()} }
func (s lateReceipts) States() annals.StateStore { return lateStates{s.Store.States()} }

type lateJournal struct{ annals.Journal }

func (j lateJournal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	r, err := j.Journal.Append(ctx, c)
	r.Time = r.Time.Add(time.Microsecond)
	return r, err
}

type lateStates struct{ annals.StateStore }

func (s lateStates) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	r, err := s.StateStore.Put(ctx, w)
	r.Time = r.Time.Add(time.Microsecond)
	return r, err
}

type plainEvents struct{ annals.Store }

func (s plainEvents) Journal() annals.Journal { return plainJournal{s.Store.Journal()} }

type plainJournal struct{ annals.Journal }

func (j plainJournal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	for i := range c.Events {
		c.Events[i].Metadata = annals.Payload{}
	}
	return j.Journal.Append(ctx, c)
}

type shortReplays struct{ annals.Store }

func (s shortReplays) Journal() annals.Journal { return shortJournal{s.Store.Journal()} }

type shortJournal struct{ annals.Journal }

func (j shortJournal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	if from == 1 {
		to = 2
	}
	return j.Journal.Replay(ctx, id, from, to)
}

type noDeletes struct{ annals.Store }

func (s noDeletes) Journal() annals.Journal { return undeletedJournal{s.Store.Journal()} }

type undeletedJournal struct{ annals.Journal }

func (undeletedJournal) DeleteTo(context.Context, annals.PersistenceID, annals.SeqNr) error {
	return nil
}

type firstSnapshots struct{ annals.Store }

func (s firstSnapshots) Snapshots() annals.SnapshotStore { return firstOnly{s.Store.Snapshots()} }

type firstOnly struct{ annals.SnapshotStore }

func (s firstOnly) Save(ctx context.Context, snapshot annals.Snapshot) error {
	if _, ok, err := s.Latest(ctx, snapshot.ID, annals.SnapshotCriteria{}); ok || err != nil {
		return err
	}
	return s.SnapshotStore.Save(ctx, snapshot)
}
