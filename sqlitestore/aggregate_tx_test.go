package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/sqlitestore"
)

// openShop is a store with the tables of createShop and some pens.
func openShop(t *testing.T, pens int) *sqlitestore.Store {
	t.Helper()
	s := open(t, sqlitestore.Options{Init: createShop})
	err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, _ annals.Store) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO stock VALUES ('pen', ?)`, pens)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantShop demands how many pens are left, how many rows the outbox has, and the events of the orders o-1, o-2, ….
func wantShop(t *testing.T, s *sqlitestore.Store, pens, rows int, orders ...int) {
	t.Helper()
	if n := count(t, s.DB(), `SELECT pieces FROM stock`); n != pens {
		t.Errorf("%d pens are left, want %d", n, pens)
	}
	if n := count(t, s.DB(), `SELECT count(*) FROM outbox`); n != rows {
		t.Errorf("the outbox has %d rows, want %d", n, rows)
	}
	for i, want := range orders {
		id := orderBehavior.ID("o-" + string(rune('1'+i)))
		if last, err := s.Journal().LastSeqNr(t.Context(), id); int(last) != want || err != nil {
			t.Errorf("%s has %d events (%v), want %d", id, last, err, want)
		}
	}
}

// What an aggregate writes is undone with the program's own rows, whichever of them fails.
func TestAggregateInTx(t *testing.T) {
	t.Parallel()
	s := openShop(t, 2)
	if err := place(t.Context(), s, "o-1", Place{Item: "pen"}); err != nil {
		t.Error(err)
	}
	wantShop(t, s, 1, 1, 1)

	if err := place(t.Context(), s, "o-1", Place{Item: "pen"}); !errors.Is(err, errPlaced) { // the aggregate refuses
		t.Errorf("an order that was placed: %v", err)
	}
	wantShop(t, s, 1, 1, 1)

	if err := place(t.Context(), s, "o-2", Place{Item: "ink"}); !errors.Is(err, errSoldOut) { // there is no such row
		t.Errorf("an order of a sold-out item: %v", err)
	}
	wantShop(t, s, 1, 1, 1, 0)

	err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, in annals.Store) error { // the function itself fails
		orders, err := aggregate.New(in, orderBehavior, aggregate.Options{})
		if err != nil {
			return err
		}
		if _, err := orders.Do(ctx, "o-2", Place{Item: "pen"}); err != nil {
			return err
		}
		_, at, err := orders.Load(ctx, "o-2")
		if err != nil {
			return err
		}
		if at != 1 {
			t.Errorf("within the transaction the order is at %d, want 1", at)
		}
		mustExec(t, tx, `UPDATE stock SET pieces = pieces - 1`)
		return errOwn
	})
	if !errors.Is(err, errOwn) {
		t.Error(err)
	}
	wantShop(t, s, 1, 1, 1, 0)
}

// A transaction has the only connection that writes, so a conflict shows at once: the number of DoAt is compared with what is stored.
func TestAggregateConflictInTx(t *testing.T) {
	t.Parallel()
	s := openShop(t, 2)
	if err := place(t.Context(), s, "o-1", Place{Item: "pen"}); err != nil {
		t.Fatal(err)
	}
	err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, in annals.Store) error {
		orders, err := aggregate.New(in, orderBehavior, aggregate.Options{})
		if err != nil {
			return err
		}
		_, err = orders.DoAt(ctx, "o-1", 0, Place{Item: "pen"})
		wantKind(t, err, annals.ErrConflict)
		_, err = orders.DoAt(ctx, "o-2", 0, Place{Item: "pen"}) // the transaction goes on
		mustExec(t, tx, `UPDATE stock SET pieces = pieces - 1`)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	wantShop(t, s, 0, 1, 1, 1)
}

// Hosts on the outer store cannot write with the function's context. They can read with it.
func TestOuterHostsInTx(t *testing.T) {
	t.Parallel()
	s := openShop(t, 1)
	orders, err := aggregate.New(s, orderBehavior, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	runtime, err := entity.New(s, orderBehavior, entity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = runtime.Shutdown(t.Context()) }()
	err = s.InTx(t.Context(), func(ctx context.Context, _ *sql.Tx, _ annals.Store) error {
		_, err := runtime.Ask(ctx, "o-1", Place{Item: "pen"})
		wantKind(t, err, annals.ErrInvalid)
		_, err = orders.Ask(ctx, "o-1", Place{Item: "pen"})
		wantKind(t, err, annals.ErrInvalid)
		_, _, err = orders.Load(ctx, "o-1")
		return err
	})
	if err != nil {
		t.Error(err)
	}
	wantShop(t, s, 1, 0, 0)
}

// The snapshot of a command is part of the transaction: it is saved before the command is answered, and undone with the rest.
func TestAggregateSnapshotInTx(t *testing.T) {
	t.Parallel()
	s, snapshotted := openShop(t, 2), orderBehavior
	snapshotted.SnapshotEvery = 1
	for _, fail := range []error{errOwn, nil} {
		err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, in annals.Store) error {
			orders, err := aggregate.New(in, snapshotted, aggregate.Options{})
			if err != nil {
				return err
			}
			if _, err := orders.Do(ctx, "o-1", Place{Item: "pen"}); err != nil {
				return err
			}
			mustExec(t, tx, `UPDATE stock SET pieces = pieces - 1`)
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
	wantShop(t, s, 1, 0, 1)
}
