package memstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/memstore"
)

func lastNumber(t *testing.T, s annals.Store, id string) annals.SeqNr {
	t.Helper()
	last, err := s.Journal().LastSeqNr(t.Context(), orderBehavior.ID(id))
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// What an aggregate writes is undone with the program's own values, whichever of them fails.
func TestAggregateInTx(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	if err := deliver(t.Context(), s, "pen", 1); err != nil {
		t.Fatal(err)
	}
	if err := place(t.Context(), s, "o-1", Place{Item: "pen"}); err != nil {
		t.Error(err)
	}
	if err := place(t.Context(), s, "o-2", Place{Item: "pen"}); !errors.Is(err, errSoldOut) {
		t.Errorf("an order of a sold-out item: %v", err)
	}
	failed := errors.New("the function's own")
	err := s.InTx(t.Context(), func(ctx context.Context, tx memstore.Tx, in annals.Store) error {
		orders, err := aggregate.New(in, orderBehavior, aggregate.Options{})
		if err != nil {
			return err
		}
		if _, err := orders.Do(ctx, "o-3", Place{Item: "pen"}); err != nil {
			return err
		}
		tx.SetValue("stock pen", 7)
		return failed
	})
	if !errors.Is(err, failed) {
		t.Error(err)
	}
	if a, b, c := lastNumber(t, s, "o-1"), lastNumber(t, s, "o-2"), lastNumber(t, s, "o-3"); a != 1 || b != 0 || c != 0 {
		t.Errorf("the orders have %d, %d and %d events, want 1, 0 and 0", a, b, c)
	}
	if n := s.Value("stock pen"); n != 0 {
		t.Errorf("%v pens are left, want 0", n)
	}
}

// A transaction locks the store, so a conflict shows at once: the number of DoAt is compared with what is stored.
func TestAggregateConflictInTx(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: orderBehavior.ID("o-1"), Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 31, Manifest: "Order", Data: []byte(`{}`)}}}}); err != nil {
		t.Fatal(err)
	}
	err := s.InTx(t.Context(), func(ctx context.Context, _ memstore.Tx, in annals.Store) error {
		orders, err := aggregate.New(in, orderBehavior, aggregate.Options{})
		if err != nil {
			return err
		}
		if _, err := orders.DoAt(ctx, "o-1", 0, Place{Item: "pen"}); !errors.Is(err, annals.ErrConflict) {
			t.Errorf("at a number that is not the last: %v, want ErrConflict", err)
		}
		_, err = orders.DoAt(ctx, "o-1", 1, Place{Item: "pen"}) // the transaction goes on
		return err
	})
	if last := lastNumber(t, s, "o-1"); err != nil || last != 2 {
		t.Errorf("the order ends at %d (%v), want 2", last, err)
	}
}

// Hosts on the outer store cannot write with the function's context. They can read with it.
func TestOuterHostsInTx(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	orders, err := aggregate.New(s, orderBehavior, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	runtime, err := entity.New(s, orderBehavior, entity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = runtime.Shutdown(t.Context()) }()
	err = s.InTx(t.Context(), func(ctx context.Context, _ memstore.Tx, _ annals.Store) error {
		if _, err := runtime.Ask(ctx, "o-1", Place{Item: "pen"}); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("a command to a runtime on the outer store: %v, want ErrInvalid", err)
		}
		if _, err := orders.Ask(ctx, "o-1", Place{Item: "pen"}); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("a command to a repository on the outer store: %v, want ErrInvalid", err)
		}
		_, _, err = orders.Load(ctx, "o-1")
		return err
	})
	if last := lastNumber(t, s, "o-1"); err != nil || last != 0 {
		t.Errorf("the order ends at %d (%v), want 0", last, err)
	}
}

// The snapshot of a command is saved within the transaction, before the command is answered: tx and the store inside are for one
// goroutine at a time.
func TestAggregateSnapshotInTx(t *testing.T) {
	t.Parallel()
	s, snapshotted := memstore.New(), orderBehavior
	snapshotted.SnapshotEvery = 1
	failed := errors.New("fails")
	for _, fail := range []error{failed, nil} {
		err := s.InTx(t.Context(), func(ctx context.Context, _ memstore.Tx, in annals.Store) error {
			orders, err := aggregate.New(in, snapshotted, aggregate.Options{})
			if err != nil {
				return err
			}
			if _, err := orders.Do(ctx, "o-1", Place{Item: "pen"}); err != nil {
				return err
			}
			return fail
		})
		if !errors.Is(err, fail) {
			t.Error(err)
		}
		snap, ok, err := s.Snapshots().Latest(t.Context(), orderBehavior.ID("o-1"), annals.SnapshotCriteria{})
		if ok != (fail == nil) || ok && snap.SeqNr != 1 || err != nil {
			t.Errorf("after %v: snapshot %d, %v, %v", fail, snap.SeqNr, ok, err)
		}
	}
}
