package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/memstore"
)

func appendTo(t *testing.T, s annals.Store, id string, after annals.SeqNr) {
	t.Helper()
	c := annals.Commit{ID: annals.PersistenceID("T|" + id), After: after, Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1}}}}
	if _, err := s.Journal().Append(context.Background(), c); err != nil {
		t.Error(err)
	}
}

// A transaction costs what it changes, however much is stored, also when it is undone.
func TestInTxCopiesWhatChanges(t *testing.T) {
	s := memstore.New()
	for i := range 20_000 {
		appendTo(t, s, fmt.Sprint(i), 0)
	}
	for _, want := range []error{nil, errors.ErrUnsupported} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := s.InTx(t.Context(), func(_ context.Context, _ memstore.Tx, in annals.Store) error {
			appendTo(t, in, "new", 0)
			return want
		})
		runtime.ReadMemStats(&after)
		if !errors.Is(err, want) {
			t.Error(err)
		}
		if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 100_000 {
			t.Errorf("%v: a transaction of one event took %d bytes", want, bytes)
		}
		last, err := s.Journal().LastSeqNr(t.Context(), "T|new")
		if stored := want == nil; err != nil || (last == 1) != stored {
			t.Errorf("%v: the last number is %d, %v", want, last, err)
		}
		if err := s.Journal().DeleteTo(t.Context(), "T|new", 1); err != nil {
			t.Error(err)
		}
		if _, err := s.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "T|new"}); err != nil {
			t.Error(err)
		}
	}
}

// What a goroutine of the function reads from the outer store is of one moment, also while the transaction ends.
func TestReadWhileATransactionEnds(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	var reading sync.WaitGroup
	for i := range 50 {
		err := s.InTx(t.Context(), func(ctx context.Context, _ memstore.Tx, in annals.Store) error {
			for range 4 {
				reading.Go(func() {
					for range 20 {
						last, err := s.Journal().LastSeqNr(ctx, "T|1")
						if second, _ := s.Journal().LastSeqNr(ctx, "T|2"); err != nil || second < last {
							t.Errorf("T|2 has %d, T|1 had %d, %v", second, last, err)
						}
					}
				})
			}
			appendTo(t, in, "1", annals.SeqNr(i))
			appendTo(t, in, "2", annals.SeqNr(i))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	reading.Wait()
}

// A change that a handler refuses within a transaction leaves the signals of what the transaction has written before.
func TestSignalsOfATransaction(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	s, err := memstore.Open(memstore.Options{StateTypes: map[string]annals.StateType[memstore.Tx]{
		"S": {OnChange: func(context.Context, memstore.Tx, annals.State) error { return refused }},
	}})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := ability.Of[ability.Watcher](s)
	if err != nil {
		t.Fatal(err)
	}
	signals, err := watcher.Watch(t.Context(), annals.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	err = s.InTx(t.Context(), func(ctx context.Context, _ memstore.Tx, in annals.Store) error {
		appendTo(t, in, "1", 0)
		if _, err := in.States().Put(ctx, annals.StateWrite{ID: "S|1", Payload: annals.Payload{SerializerID: 1}}); !errors.Is(err, refused) {
			t.Errorf("the change is %v", err)
		}
		return nil
	})
	if last, _ := s.Journal().LastSeqNr(t.Context(), "T|1"); err != nil || last != 1 || len(signals) != 1 {
		t.Errorf("%v, the last number is %d, %d signals", err, last, len(signals))
	}
}
