package query_test

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"path/filepath"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/sqlitestore"
)

// sumUp keeps the table total from the events that a store pushes, until ctx ends. An event that is delivered again changes nothing.
func sumUp(ctx context.Context, events ability.Subscriber, into *sqlitestore.Store) error {
	for delivery, err := range events.Subscribe(ctx, "totals", annals.Filter{Type: "Account"}) {
		if err != nil {
			return err
		}
		err := into.InTx(ctx, func(ctx context.Context, tx *sql.Tx, _ annals.Store) error {
			for _, e := range delivery.Events {
				deposited, err := deposits.Decode(e.Payload)
				if err != nil {
					return err
				}
				_, err = tx.ExecContext(ctx, `INSERT INTO total (account, number, amount) VALUES (?, ?, ?)
					ON CONFLICT (account) DO UPDATE SET number = excluded.number, amount = amount + excluded.amount
					WHERE number < excluded.number`, e.ID.EntityID(), e.SeqNr, deposited.Amount)
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := delivery.Ack(ctx); err != nil {
			return err
		}
	}
	return nil
}

// acknowledging is a Subscriber whose acknowledgements go through a function.
type acknowledging struct {
	*memstore.Store
	ack func(ctx context.Context, ack func(context.Context) error) error
}

func (a acknowledging) Subscribe(ctx context.Context, name string, f annals.Filter) iter.Seq2[ability.Delivery, error] {
	return func(yield func(ability.Delivery, error) bool) {
		for d, err := range a.Store.Unwrap().(ability.Subscriber).Subscribe(ctx, name, f) {
			ack := d.Ack
			d.Ack = func(ctx context.Context) error { return a.ack(ctx, ack) }
			if !yield(d, err) {
				return
			}
		}
	}
}

// The loop ends between the transaction and the acknowledgement. The events are delivered again, and count once.
func TestSumUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	into, err := sqlitestore.Open(ctx, filepath.Join(t.TempDir(), "totals.db"), sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	createTable := func(ctx context.Context, tx *sql.Tx, _ annals.Store) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE total (account TEXT PRIMARY KEY, number INTEGER NOT NULL, amount INTEGER NOT NULL)`)
		return err
	}
	if err := into.InTx(ctx, createTable); err != nil {
		t.Fatal(err)
	}
	events := memstore.New()
	if err := deposit(ctx, events, "Account|a-1", 30, 12); err != nil {
		t.Fatal(err)
	}
	stopped := errors.New("stopped")
	if err := sumUp(ctx, acknowledging{events, func(context.Context, func(context.Context) error) error { return stopped }}, into); !errors.Is(err, stopped) {
		t.Fatal(err)
	}
	err = sumUp(ctx, acknowledging{events, func(ctx context.Context, ack func(context.Context) error) error {
		defer cancel()
		return ack(ctx)
	}}, into)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	var number, amount int
	if err := into.DB().QueryRowContext(t.Context(), `SELECT number, amount FROM total WHERE account = 'a-1'`).Scan(&number, &amount); err != nil || number != 2 || amount != 42 {
		t.Errorf("number %d, amount %d, %v", number, amount, err)
	}
}
