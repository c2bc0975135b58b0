package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/entity"
)

var errOwn = errors.New("the function's own")

// shop is a store beside a table of the program's own.
type shop struct {
	store *dynamostore.Store
	own   own
}

func openShop(t *testing.T, pens int) shop {
	t.Helper()
	s := shop{openCommit(t, client(t), dynamostore.Options{}), newOwn(t)}
	err := s.store.InTx(t.Context(), func(_ context.Context, tx *dynamostore.Tx, _ annals.Store) error {
		tx.Add(s.own.add("stock pen", pens))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// want demands how many pens are left, and for the orders o-1, o-2, … whether each has its event and its item in the outbox.
func (s shop) want(t *testing.T, pens int, placed ...bool) {
	t.Helper()
	if n := s.own.count(t, "stock pen"); n != pens {
		t.Errorf("%d pens are left, want %d", n, pens)
	}
	for i, want := range placed {
		id := fmt.Sprintf("o-%d", i+1)
		last, err := s.store.Journal().LastSeqNr(t.Context(), orderBehavior.ID(id))
		if sent := s.own.item(t, "outbox "+id+" 1 pen") != nil; (last == 1) != want || sent != want || err != nil {
			t.Errorf("%s has %d events (%v), and its item is there: %v; want %v", id, last, err, sent, want)
		}
	}
}

// What an aggregate writes is undone with the program's own items, whichever of them fails.
func TestAggregateInTx(t *testing.T) {
	t.Parallel()
	s := openShop(t, 2)
	if err := place(t.Context(), s.store, s.own.table, "o-1", Place{Item: "pen"}); err != nil {
		t.Error(err)
	}
	s.want(t, 1, true)

	if err := place(t.Context(), s.store, s.own.table, "o-1", Place{Item: "pen"}); !errors.Is(err, errPlaced) { // the aggregate refuses
		t.Errorf("an order that was placed: %v", err)
	}
	s.want(t, 1, true)

	if err := place(t.Context(), s.store, s.own.table, "o-2", Place{Item: "ink"}); !errors.Is(err, annals.ErrConstraint) { // a condition fails
		t.Errorf("an order of a sold-out item: %v", err)
	}
	s.want(t, 1, true, false)

	err := s.store.InTx(t.Context(), func(ctx context.Context, tx *dynamostore.Tx, in annals.Store) error { // the function itself fails
		orders, err := aggregate.New(in, orderBehavior, aggregate.Options{})
		if err != nil {
			return err
		}
		if _, err := orders.Do(ctx, "o-2", Place{Item: "pen"}); err != nil {
			return err
		}
		_, at, err := orders.Load(ctx, "o-2") // nothing is sent before the function returns
		if err != nil {
			return err
		}
		if at != 0 {
			t.Errorf("within the transaction the order is at %d, want 0", at)
		}
		tx.Add(s.own.add("stock pen", -1))
		return errOwn
	})
	if !errors.Is(err, errOwn) {
		t.Error(err)
	}
	s.want(t, 1, true, false)
}

// Nothing is sent before the function returns. So when another process places the order meanwhile, the conflict shows when InTx returns,
// and the caller runs all of it again.
func TestAggregateConflictInTx(t *testing.T) {
	t.Parallel()
	s := openShop(t, 2)
	again := func() error {
		return s.store.InTx(t.Context(), func(ctx context.Context, tx *dynamostore.Tx, in annals.Store) error {
			orders, err := aggregate.New(in, orderBehavior, aggregate.Options{})
			if err != nil {
				return err
			}
			if _, err := orders.Do(ctx, "o-1", Place{Item: "pen"}); err != nil {
				return err
			}
			if err := place(t.Context(), s.store, s.own.table, "o-1", Place{Item: "pen"}); err != nil {
				t.Error(err)
			}
			tx.Add(s.own.add("stock pen", -1))
			return nil
		})
	}
	if err := again(); !errors.Is(err, annals.ErrConflict) {
		t.Errorf("overtaken: %v, want ErrConflict", err)
	}
	s.want(t, 1, true)
	if err := again(); !errors.Is(err, errPlaced) {
		t.Errorf("once more: %v, want %v", err, errPlaced)
	}
	s.want(t, 1, true)

	err := s.store.InTx(t.Context(), func(ctx context.Context, _ *dynamostore.Tx, in annals.Store) error {
		orders, err := aggregate.New(in, orderBehavior, aggregate.Options{})
		if err != nil {
			return err
		}
		_, err = orders.DoAt(ctx, "o-1", 0, Place{Item: "pen"}) // DoAt compares with what was read, and sees this one at once
		if !errors.Is(err, annals.ErrConflict) {
			t.Errorf("at a number that is not the last: %v, want ErrConflict", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Hosts on the outer store cannot write with the function's context. They can read with it.
func TestOuterHostsInTx(t *testing.T) {
	t.Parallel()
	s := openShop(t, 1)
	orders, err := aggregate.New(s.store, orderBehavior, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	runtime, err := entity.New(s.store, orderBehavior, entity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = runtime.Shutdown(t.Context()) }()
	err = s.store.InTx(t.Context(), func(ctx context.Context, _ *dynamostore.Tx, _ annals.Store) error {
		if _, err := runtime.Ask(ctx, "o-1", Place{Item: "pen"}); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("a command to a runtime on the outer store: %v, want ErrInvalid", err)
		}
		if _, err := orders.Ask(ctx, "o-1", Place{Item: "pen"}); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("a command to a repository on the outer store: %v, want ErrInvalid", err)
		}
		_, _, err = orders.Load(ctx, "o-1")
		return err
	})
	if err != nil {
		t.Error(err)
	}
	s.want(t, 1, false)
}

// The snapshot of a command is an item of the transaction, and undone with the rest.
func TestAggregateSnapshotInTx(t *testing.T) {
	t.Parallel()
	s, snapshotted := openShop(t, 2), orderBehavior
	snapshotted.SnapshotEvery = 1
	for _, fail := range []error{errOwn, nil} {
		err := s.store.InTx(t.Context(), func(ctx context.Context, tx *dynamostore.Tx, in annals.Store) error {
			orders, err := aggregate.New(in, snapshotted, aggregate.Options{})
			if err != nil {
				return err
			}
			if _, err := orders.Do(ctx, "o-1", Place{Item: "pen"}); err != nil {
				return err
			}
			tx.Add(s.own.add("stock pen", -1))
			return fail
		})
		if !errors.Is(err, fail) {
			t.Error(err)
		}
		snap, ok, err := s.store.Snapshots().Latest(t.Context(), orderBehavior.ID("o-1"), annals.SnapshotCriteria{})
		if ok != (fail == nil) || ok && snap.SeqNr != 1 || err != nil {
			t.Errorf("after %v: snapshot %d, %v, %v", fail, snap.SeqNr, ok, err)
		}
	}
	if n := s.own.count(t, "stock pen"); n != 1 {
		t.Errorf("%d pens are left, want 1", n)
	}
}

// With an index the events of a transaction get their time when it is sent, which is after EvolveStored has run. So no snapshot is made of
// what EvolveStored returned: its times would not be those of the events.
func TestAggregateTimesInTx(t *testing.T) {
	t.Parallel()
	s, err := dynamostore.Open(t.Context(), client(t), commit.Layout{Table: "t" + rand.Text(), Index: "slices"}, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	dated := behavior.EventSourced[Place, Placed, time.Time, struct{}]{
		Type:          orderBehavior.Type,
		Decide:        func(_ time.Time, c Place) ([]Placed, error) { return []Placed{Placed(c)}, nil },
		EvolveStored:  func(_ time.Time, _ Placed, info behavior.Info) time.Time { return info.Time },
		SnapshotEvery: 1,
	}
	err = s.InTx(t.Context(), func(ctx context.Context, _ *dynamostore.Tx, in annals.Store) error {
		orders, err := aggregate.New(in, dated, aggregate.Options{})
		if err != nil {
			return err
		}
		_, err = orders.Do(ctx, "o-1", Place{Item: "pen"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	orders, err := aggregate.New(s, dated, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	at, _, err := orders.Load(t.Context(), "o-1")
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range s.Journal().Replay(t.Context(), orderBehavior.ID("o-1"), 1, 1) {
		if err != nil || !e.Time.Equal(at) {
			t.Errorf("the state has the time %v, its event %v (%v)", at, e.Time, err)
		}
	}
}
