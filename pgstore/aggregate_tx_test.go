package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/pgstore"
)

var errOwn = errors.New("the function's own")

// openShop is a store with the tables of createShop and some pens.
func openShop(t *testing.T, pens int) *pgstore.Store {
	t.Helper()
	s := open(t, pgstore.Options{})
	run(t, urls.of(s), createShop)
	run(t, urls.of(s), fmt.Sprintf(`INSERT INTO stock VALUES ('pen', %d)`, pens))
	return s
}

// wantShop checks how many pens are left, how many rows the outbox has, and the events of the orders o-1, o-2, ….
func wantShop(t *testing.T, s *pgstore.Store, pens, rows int, orders ...int) {
	t.Helper()
	if n := count(t, urls.of(s), `SELECT pieces FROM stock`); n != pens {
		t.Errorf("%d pens are left, want %d", n, pens)
	}
	if n := count(t, urls.of(s), `SELECT count(*) FROM outbox`); n != rows {
		t.Errorf("the outbox has %d rows, want %d", n, rows)
	}
	for i, want := range orders {
		id := orderBehavior.ID(fmt.Sprintf("o-%d", i+1))
		if last, err := s.Journal().LastSeqNr(t.Context(), id); int(last) != want || err != nil {
			t.Errorf("%s has %d events (%v), want %d", id, last, err, want)
		}
	}
}

// When an aggregate's write or the program's own statement fails, the writes of both are undone.
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

	err := s.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, in annals.Store) error { // the function itself fails
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
		if _, err := tx.Exec(ctx, `UPDATE stock SET pieces = pieces - 1`); err != nil {
			return err
		}
		return errOwn
	})
	if !errors.Is(err, errOwn) {
		t.Error(err)
	}
	wantShop(t, s, 1, 1, 1, 0)
}

// Another process places the order between the read and the write of Do. The write is a conflict, and the transaction goes on: Do reads
// what the other process has committed and decides again. DoAt returns the conflict.
func TestAggregateConflictInTx(t *testing.T) {
	t.Parallel()
	s := openShop(t, 2)
	other := openAt(t, urls.of(s), pgstore.Options{})
	err := s.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, in annals.Store) error {
		overtaken, decided := orderBehavior, 0
		overtaken.Decide = func(o Placed, c Place) ([]Placed, error) {
			if decided++; decided == 1 {
				if err := place(t.Context(), other, "o-1", c); err != nil {
					t.Error(err)
				}
			}
			return orderBehavior.Decide(o, c)
		}
		orders, err := aggregate.New(in, overtaken, aggregate.Options{})
		if err != nil {
			return err
		}
		if _, err := orders.Do(ctx, "o-1", Place{Item: "pen"}); !errors.Is(err, errPlaced) || decided != 2 {
			t.Errorf("%v, decided %d times: want %v, decided twice", err, decided, errPlaced)
		}
		_, err = orders.DoAt(ctx, "o-1", 0, Place{Item: "pen"})
		wantKind(t, err, annals.ErrConflict)
		if _, err := orders.DoAt(ctx, "o-2", 0, Place{Item: "pen"}); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE stock SET pieces = pieces - 1`)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	wantShop(t, s, 0, 1, 1, 1)
}

// With the context of the function, hosts on the outer store can read, but not write.
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
	err = s.InTx(t.Context(), func(ctx context.Context, _ pgx.Tx, _ annals.Store) error {
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

// The snapshot of a command is part of the transaction. It is saved before the command is answered, because the function's next statement
// uses the same connection. It is undone with the transaction.
func TestAggregateSnapshotInTx(t *testing.T) {
	t.Parallel()
	s, snapshotted := openShop(t, 2), orderBehavior
	snapshotted.SnapshotEvery = 1
	for _, fail := range []error{errOwn, nil} {
		err := s.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, in annals.Store) error {
			orders, err := aggregate.New(in, snapshotted, aggregate.Options{})
			if err != nil {
				return err
			}
			if _, err := orders.Do(ctx, "o-1", Place{Item: "pen"}); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `UPDATE stock SET pieces = pieces - 1`); err != nil {
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
	wantShop(t, s, 1, 0, 1)
}
