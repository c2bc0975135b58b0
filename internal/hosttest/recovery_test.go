package hosttest

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
)

func TestRecovery(t *testing.T) {
	t.Parallel()
	Recovery(t, memstore.New())
}

// On a store without Times, events have none in memory either.
func TestRecoveryWithoutTimes(t *testing.T) {
	t.Parallel()
	Recovery(t, timeless{around(memstore.New(), withoutTimes)})
}

type timeless struct{ annals.Store }

func (s timeless) Capabilities() annals.Capabilities {
	c := s.Store.Capabilities()
	c.Times, c.EventTimes, c.EventQueries, c.SnapshotQueries = false, false, false, false
	return c
}

func withoutTimes(_ context.Context, c *faulty.Call, run func() error) error {
	c.Each = func(value any) error {
		if e, ok := value.(*annals.Event); ok {
			e.Time = time.Time{}
		}
		return nil
	}
	err := run()
	if c.Op == "append" {
		c.Result.(*annals.Receipt).Time = time.Time{}
	}
	return err
}

// around is s with a.
func around(s annals.Store, a faulty.Around) annals.Store {
	return &faulty.Store{Store: s, Around: a}
}

// Each mutant breaks what some of the cases rely on, and those cases must fail on it.
func TestRecoveryFindsMutants(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]struct {
		store annals.Store
		found []string
	}{
		"receipts with another time":      {around(memstore.New(), lateReceipts), []string{"InfoOfEvents", "InfoOfStates"}},
		"events without metadata":         {around(memstore.New(), plainEvents), []string{"InfoOfEvents"}},
		"replays end at number 2":         {shortReplays{memstore.New()}, []string{"OtherSnapshot"}},
		"deletes do nothing":              {around(memstore.New(), noDeletes), []string{"OtherSnapshotWithoutEvents"}},
		"one snapshot is kept, the first": {around(memstore.New(), firstSnapshots), []string{"OtherSnapshot", "LiftedSnapshot", "OtherSnapshotWithoutEvents"}},
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
		r, err := aggregate.New(around(in, lateReceipts), b, aggregate.Options{})
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

func lateReceipts(_ context.Context, c *faulty.Call, run func() error) error {
	err := run()
	if r, ok := c.Result.(*annals.Receipt); ok {
		r.Time = r.Time.Add(time.Microsecond)
	}
	return err
}

func plainEvents(_ context.Context, c *faulty.Call, run func() error) error {
	if commit, ok := c.Arg.(*annals.Commit); ok {
		for i := range commit.Events {
			commit.Events[i].Metadata = annals.Payload{}
		}
	}
	return run()
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

func noDeletes(_ context.Context, c *faulty.Call, run func() error) error {
	if c.Op == "delete events" {
		return nil
	}
	return run()
}

func firstSnapshots(ctx context.Context, c *faulty.Call, run func() error) error {
	if c.Op == "save snapshot" {
		if _, ok, err := c.Store.Snapshots().Latest(ctx, c.ID, annals.SnapshotCriteria{}); ok || err != nil {
			return err
		}
	}
	return run()
}
