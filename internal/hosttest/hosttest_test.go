package hosttest

import (
	"context"
	"iter"
	"runtime"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/memstore"
)

func TestTwoRuntimes(t *testing.T) {
	t.Parallel()
	s := slow{memstore.New()}
	TwoRuntimes(t, s, s)
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	Accounts(t, memstore.New())
}

// Runtimes that do not look at the store before they answer are found out.
func TestRuntimesThatDoNotLook(t *testing.T) {
	t.Parallel()
	for name, start := range kinds(memstore.New().Capabilities()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 20 {
				s := slow{memstore.New()}
				calls, err := play(t.Context(), start, s, s, entity.Options{SingleOwner: true})
				if err != nil {
					t.Fatal(err)
				}
				if !linearizable(calls) {
					return
				}
			}
			t.Error("20 histories of runtimes that answer from memory are linearizable")
		})
	}
}

// slow is a store with a delay, as over a network: other goroutines run while a call is under way.
type slow struct{ annals.Store }

func (s slow) Journal() annals.Journal   { return slowJournal{s.Store.Journal()} }
func (s slow) States() annals.StateStore { return slowStates{s.Store.States()} }

func pause() {
	for range 20 {
		runtime.Gosched()
	}
}

type slowJournal struct{ annals.Journal }

func (j slowJournal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	pause()
	defer pause()
	return j.Journal.Append(ctx, c)
}

func (j slowJournal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	pause()
	return j.Journal.Replay(ctx, id, from, to)
}

func (j slowJournal) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	pause()
	defer pause()
	return j.Journal.LastSeqNr(ctx, id)
}

type slowStates struct{ annals.StateStore }

func (s slowStates) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	pause()
	defer pause()
	return s.StateStore.Put(ctx, w)
}

func (s slowStates) Get(ctx context.Context, id annals.PersistenceID) (annals.State, bool, error) {
	pause()
	defer pause()
	return s.StateStore.Get(ctx, id)
}
